"""The estimators of the plugin, by what they take."""

import dpframe_baselines

ALL = dpframe_baselines.dpframe_estimators()
OF_CANARIES = [cls for cls in ALL if cls().statistic().accepts == {"canaries"}]
OF_SCORES = [cls for cls in ALL if cls not in OF_CANARIES]
