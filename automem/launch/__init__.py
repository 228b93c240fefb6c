"""Put whole experiments on a cluster or on this machine."""
