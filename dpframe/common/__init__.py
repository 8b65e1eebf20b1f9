"""Basic modules for types, text, files and the machine; they import only `dpframe.errors`."""
