"""What the coordinator hands to a site: keys, certificates, settings."""
