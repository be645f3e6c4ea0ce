"""Planning: an observation in, steps or a refusal out."""
