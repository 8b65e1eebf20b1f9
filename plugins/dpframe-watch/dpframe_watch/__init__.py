"""Commands of dpframe that audit versions of libraries and report violations to their authors.

`registry` reads the list of libraries, `audits` builds environments and runs audits, `site` writes
pages, and `disclosure` writes private reports.
"""
