"""Other servers. Not built yet; its issue has not come."""
