"""An object store as a few small verbs, with its back-ends."""

from frazil.objects.opening import open_objects
from frazil.objects.port import ObjectInfo, ObjectStore

__all__ = ["ObjectInfo", "ObjectStore", "open_objects"]
