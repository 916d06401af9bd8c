"""Manifests: YAML that says which topics, tables and catalogs should be, read into values and compared with what is."""

from frazil.admin.manifests.documents import Manifest, check_together, read_manifests
from frazil.admin.manifests.place import ManifestFault, Place

__all__ = ["Manifest", "ManifestFault", "Place", "check_together", "read_manifests"]
