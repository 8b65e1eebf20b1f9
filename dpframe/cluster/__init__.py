"""The executor that sends work to a Dask cluster."""
