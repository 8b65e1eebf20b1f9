"""Reports as files, one module for each kind; the suffix of a file selects its kind."""
