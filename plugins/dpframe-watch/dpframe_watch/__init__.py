"""Commands of dpframe that audit versions of libraries and report violations to their authors.

`registry` reads what is watched, `audits` builds, runs and remembers, `site` writes pages, and
`disclosure` writes private reports.
"""
