"""Pass many values to the JVM in a few calls: one py4j call per value would cost more than the work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from py4j.java_gateway import JavaClass

_GUAVA = "org.apache.iceberg.relocated.com.google.common"
_SEPARATOR = "\x01\x02"


def java_class(jvm: Any, name: str) -> Any:
    """A class by its full name. As attributes of `jvm`, each part of the name would be a call."""
    return JavaClass(name, jvm._gateway_client)


def set_of_strings(jvm: Any, texts: Iterable[str]) -> Any:
    """A java.util.Set of strings."""
    splitter = java_class(jvm, f"{_GUAVA}.base.Splitter").on(_SEPARATOR)
    return java_class(jvm, f"{_GUAVA}.collect.Sets").newHashSet(splitter.splitToList(_SEPARATOR.join(texts)))


def set_of_longs(jvm: Any, numbers: Sequence[int]) -> Any:
    """A java.util.Set of Longs. Passed one by one, small numbers would arrive as Integers, which never equal a Long."""
    return java_class(jvm, f"{_GUAVA}.collect.Sets").newHashSet(list_of_longs(jvm, numbers))


def list_of_longs(jvm: Any, numbers: Sequence[int]) -> Any:
    """A java.util.List of Longs."""
    texts = (
        java_class(jvm, f"{_GUAVA}.base.Splitter").on(",").omitEmptyStrings().splitToList(",".join(map(str, numbers)))
    )
    as_longs = java_class(jvm, f"{_GUAVA}.primitives.Longs").stringConverter()
    return java_class(jvm, f"{_GUAVA}.collect.Lists").transform(texts, as_longs)


def string_getter(jvm: Any, loader: Any, class_name: str, method: str) -> Any:
    """A Guava function that calls a string-valued method of an object of that class."""
    holder, text = loader.loadClass(class_name), loader.loadClass("java.lang.String")
    function = loader.loadClass("org.apache.iceberg.relocated.com.google.common.base.Function")
    kind = java_class(jvm, "java.lang.invoke.MethodType").methodType(text)
    handle = java_class(jvm, "java.lang.invoke.MethodHandles").publicLookup().findVirtual(holder, method, kind)
    return java_class(jvm, "java.lang.invoke.MethodHandleProxies").asInterfaceInstance(function, handle)


def filter_in_jvm(jvm: Any, objects: Any, predicate: Any) -> Any:
    """A java.util.Set of the objects that satisfy a predicate, filtered in the JVM."""
    return java_class(jvm, f"{_GUAVA}.collect.Sets").newHashSet(
        java_class(jvm, f"{_GUAVA}.collect.Iterables").filter(objects, predicate)
    )


def index_by(jvm: Any, objects: Any, text: Any) -> Any:
    """A java.util.Map of the objects by the string that the function `text` returns."""
    return java_class(jvm, f"{_GUAVA}.collect.Maps").uniqueIndex(objects, text)


def is_in_set(jvm: Any, texts: Iterable[str], text: Any) -> Any:
    """A predicate: whether the string that the function `text` returns for an object is one of these."""
    predicates = java_class(jvm, f"{_GUAVA}.base.Predicates")
    return predicates.compose(getattr(predicates, "in")(set_of_strings(jvm, texts)), text)
