"""What a process needs to talk to a backend: the open connection, who sends, who waits, new ids.

Nothing here knows tasks or the app; both stand on it.
"""
