"""Who asks, and may they: principals, SASL, ACLs, quotas. Not built yet; its issue has not come."""
