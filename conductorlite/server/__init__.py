"""What answers over HTTP: apps of ours, behind one guard. ASGI, so that they run by themselves or within the user's own.

`safety` imports nothing that has to be installed; what needs the extra `[server]` imports it when an app is made.
"""
