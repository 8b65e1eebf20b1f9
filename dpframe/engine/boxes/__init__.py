"""Black boxes as a run sees them: processes that are started, asked, timed and ended."""
