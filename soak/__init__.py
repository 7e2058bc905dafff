"""A soak: the service with all that is real around it, while things go wrong at random (``make soak``)."""
