"""The ground: types, text, files and this machine; imports only `dpframe.errors`."""
