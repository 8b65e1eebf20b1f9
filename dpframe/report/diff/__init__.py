"""What is different between two records, beyond noise."""
