"""Estimators in families; a file is called as its plugin is, with an underscore it is a part."""
