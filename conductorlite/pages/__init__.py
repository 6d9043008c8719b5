"""Pages to look at: an execution, or a store, as one HTML file that needs no network, no server and no JavaScript; pictures as SVG.

Pure functions over plain data. All text passes one door, `markup.element`, which escapes whatever is not made by it; a policy in
each page lets no script run but its own. JavaScript, where there is any, filters and opens what is there already.
"""
