"""JSON values that name a JSON Schema: decoded as JSON, into columns that the schema types as far as it says (docs/json-schema.md)."""
