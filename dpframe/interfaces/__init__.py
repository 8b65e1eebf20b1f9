"""The interfaces that plugin authors subclass, the hooks, and the registry of plugins."""
