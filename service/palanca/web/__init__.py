"""The web page: HTML made on the server, for people on call. Pages read and never write."""
