"""Events {score beyond a threshold}: where they are cut, which are chosen, what they certify."""
