"""Many values handed to the JVM in a few calls: through py4j a call per value would cost more than the work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_SEPARATOR = "\x01\x02"


def set_of_strings(jvm: Any, texts: Iterable[str]) -> Any:
    """A java.util.Set of texts."""
    splitter = jvm.org.apache.iceberg.relocated.com.google.common.base.Splitter.on(_SEPARATOR)
    return jvm.java.util.HashSet(splitter.splitToList(_SEPARATOR.join(texts)))


def set_of_longs(jvm: Any, numbers: Sequence[int]) -> Any:
    """A java.util.Set of Longs; one by one, small numbers would arrive as Integers, which no Long equals."""
    common = jvm.org.apache.iceberg.relocated.com.google.common
    texts = common.base.Splitter.on(",").omitEmptyStrings().splitToList(",".join(map(str, numbers)))
    return jvm.java.util.HashSet(common.collect.Lists.transform(texts, common.primitives.Longs.stringConverter()))


def text_of(jvm: Any, loader: Any, class_name: str, method: str) -> Any:
    """A Guava function from an object of that class to the text one of its methods gives."""
    holder, text = loader.loadClass(class_name), loader.loadClass("java.lang.String")
    function = loader.loadClass("org.apache.iceberg.relocated.com.google.common.base.Function")
    invoke = jvm.java.lang.invoke
    handle = invoke.MethodHandles.publicLookup().findVirtual(holder, method, invoke.MethodType.methodType(text))
    return invoke.MethodHandleProxies.asInterfaceInstance(function, handle)


def is_among(jvm: Any, texts: Iterable[str], text: Any) -> Any:
    """A predicate on objects: whether what the function `text` gives of one is among these."""
    predicates = jvm.org.apache.iceberg.relocated.com.google.common.base.Predicates
    return predicates.compose(getattr(predicates, "in")(set_of_strings(jvm, texts)), text)
