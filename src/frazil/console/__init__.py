"""Web pages. Not built yet; its issue has not come."""
