"""What the cluster must remember: a small key-value port with compare-and-swap, and typed records over it."""
