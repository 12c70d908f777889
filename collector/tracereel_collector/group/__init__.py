"""Collectors that are one service: the list of members, who owns what, and questions to the peers."""
