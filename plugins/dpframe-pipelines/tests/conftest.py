"""Workers get the code of the tests' pipelines: they cannot import it."""

import cloudpickle
import pipelines_support
from pipelines_support import frames, marginals, shop, tiny_joins, tiny_sql

for module in (pipelines_support, frames, marginals, shop, tiny_joins, tiny_sql):
    cloudpickle.register_pickle_by_value(module)
