"""Reports as files, one kind a module; which one a file gets is said by its suffix."""
