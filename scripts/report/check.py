"""Looks at reports in a browser:  check.py FOLDER REPORT...

Fails where a report says something on the console, asks for anything beside itself, is wider than its screen, or has text that
overlaps, leaves its picture or is too pale. FOLDER takes the pictures; none where empty.
"""

import concurrent.futures
import json
import os
import sys

from browser import Browser, program

SIZES = ((320, 640), (768, 1024), (1280, 900))
SCHEMES = ("light", "dark")

# Texts of a picture that overlap by more than a hair, or leave it; and texts with less contrast than WCAG's 4.5 (3 for bold ones).
LOOK = """
(() => {
  const found = [];
  const number = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => {
    const part = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const contrast = (one, other) => {
    const [a, b] = [luminance(one), luminance(other)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = number(getComputedStyle(e).backgroundColor);
      if (colour.length && (colour.length < 4 || colour[3] > 0)) return colour;
    }
    return [255, 255, 255];
  };
  for (const svg of document.querySelectorAll('figure svg')) {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].filter(t => t.getClientRects().length && t.textContent);
    const boxes = texts.map(t => t.getBoundingClientRect());
    texts.forEach((text, i) => {
      const box = boxes[i];
      if (box.left < frame.left - 2 || box.right > frame.right + 2 || box.top < frame.top - 2 || box.bottom > frame.bottom + 2)
        found.push(`leaves its picture: ${text.textContent}`);
      const style = getComputedStyle(text);
      const least = Number(style.fontWeight) >= 600 ? 3 : 4.5;
      const value = contrast(number(style.fill), behind(svg));
      if (value < least) found.push(`too pale (${value.toFixed(1)}): ${text.textContent}`);
      for (let j = 0; j < i; j++) {
        const other = boxes[j];
        const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const high = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        if (wide > 1 && high > 0.3 * Math.min(box.height, other.height))
          found.push(`overlaps: ${text.textContent} and ${texts[j].textContent}`);
      }
    });
  }
  for (const element of document.querySelectorAll('p,td,th,dt,dd,li,h1,h2,h3,a,.badge,figcaption,pre')) {
    const style = getComputedStyle(element);
    if (!element.getClientRects().length || !element.textContent.trim()) continue;
    const value = contrast(number(style.color), behind(element));
    if (value < 4.5) found.push(`too pale (${value.toFixed(1)}): ${element.textContent.trim().slice(0, 40)}`);
  }
  if (document.documentElement.scrollWidth > innerWidth) found.push(`wider than its screen: ${document.documentElement.scrollWidth}`);
  if (!document.querySelectorAll('figure svg').length) found.push('no picture');
  JSON.parse(document.getElementById('data').textContent);
  return [...new Set(found)];
})()
"""


def look(browser, path, folder):
    """What is wrong with a report."""
    name, wrong = os.path.splitext(os.path.basename(path))[0], []
    for width, height in SIZES:
        for scheme in SCHEMES:
            said, asked = browser.open(path, width, height, scheme)
            wrong += [f"{width} {scheme}: said {json.dumps(event['params'])[:300]}" for event in said]
            wrong += [f"{width} {scheme}: asked for {url}" for url in asked]
            found = browser.value(LOOK)
            wrong += [f"{width} {scheme}: {what}" for what in (["it could not be looked at"] if found is None else found)]
            if folder:
                browser.picture(os.path.join(folder, f"{name}-{width}-{scheme}.png"))
    paper = os.path.join(folder or os.path.dirname(path), f"{name}.pdf")
    browser.paper(paper)
    if os.path.getsize(paper) < 10_000:
        wrong.append("the paper is empty")
    return [f"{name}: {what}" for what in wrong]


def look_all(paths, folder):
    with Browser() as browser:
        return [what for path in paths for what in look(browser, path, folder)]


def main():
    folder, paths = sys.argv[1], sys.argv[2:]
    if not paths:
        sys.exit("check.py: no report to look at")
    if program() is None:
        sys.exit("check.py: there is no Chromium; scripts/check-report installs it")
    if folder:
        os.makedirs(folder, exist_ok=True)
    # Two halves side by side: a browser mostly waits for its own processes.
    with concurrent.futures.ProcessPoolExecutor() as halves:
        wrong = sum(halves.map(look_all, (paths[::2], paths[1::2]), (folder, folder)), [])
    print("\n".join(wrong) or f"{len(paths)} reports at {len(SIZES)} sizes, light and dark: nothing said, nothing asked for, all can be read")
    sys.exit(1 if wrong else 0)


main()
