#!/usr/bin/env python3
"""Checks the links of the documentation that `cargo doc` has built: each leads to a file, and to an anchor in it.

Rustdoc itself checks only links to items. The argument is the folder `doc` in cargo's target folder.
"""
import html.parser
import pathlib
import sys
import urllib.parse

# In the documentation of a trait of the crate `tracing`, which all types have.
FOREIGN = {"dispatcher#setting-the-default-subscriber"}


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], {""}
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors.add(attributes.get("id", ""))
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])


def main(doc):
    pages = {path: Page(path) for path in (doc / "quorlock").rglob("*.html")}
    count, dead = 0, []
    for path, page in pages.items():
        for link in page.links:
            address = urllib.parse.urlsplit(link)
            if address.scheme or link in FOREIGN or not (address.path or address.fragment):
                continue
            count += 1
            target = path
            if address.path:
                target = (path.parent / urllib.parse.unquote(address.path)).resolve()
            # Scripts of the page make the anchors of source code.
            anchors = pages[target].anchors if target in pages else {address.fragment}
            # Rustdoc writes some anchors as they are in the link, with `%`.
            is_there = {address.fragment, urllib.parse.unquote(address.fragment)} & anchors
            if not target.exists() or not is_there:
                dead.append(f"{path.relative_to(doc)}: {link}")
    if len(pages) < 50 or count < 1000:
        sys.exit(f"only {count} links of {len(pages)} pages were found in {doc}")
    if dead:
        sys.exit("\n".join(["links that lead nowhere:", *sorted(set(dead))]))
    print(f"{count} links of {len(pages)} pages lead somewhere")


main(pathlib.Path(sys.argv[1]).resolve())
