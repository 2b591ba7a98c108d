"""Pages written for the tests, each in the markup of a kind of site, with what a reader came for and what not.

``KEEP`` is text that must be in the result, ``DROP`` text that must not: navigation, footers, banners, buttons.
"""

from __future__ import annotations

from typing import NamedTuple


class Page(NamedTuple):
    name: str
    markup: str
    keep: tuple[str, ...]
    drop: tuple[str, ...]


SPHINX = Page(
    "sphinx",
    """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Lamps &#8212; Lantern 2.1 documentation</title>
<link rel="stylesheet" href="_static/alabaster.css"></head><body>
<div class="related" role="navigation" aria-label="Related"><h3>Navigation</h3><ul>
<li class="right"><a href="genindex.html">index</a></li><li class="right"><a href="mod.html">modules</a> |</li>
<li class="nav-item"><a href="index.html">Lantern 2.1 documentation</a> &#187;</li></ul></div>
<div class="document"><div class="documentwrapper"><div class="bodywrapper"><div class="body" role="main">
<section id="lamps"><h1>Lamps<a class="headerlink" href="#lamps" title="Link to this heading">¶</a></h1>
<p>A lamp burns oil. See <a class="reference internal" href="#class-lamp"><span class="std std-ref">below</span></a> for its
methods.</p>
<section id="class-lamp"><h2>The class Lamp<a class="headerlink" href="#class-lamp" title="Link to this heading">¶</a></h2>
<dl class="py class"><dt class="sig sig-object py" id="lantern.Lamp"><em class="property"><span class="k">class</span> </em>
<span class="sig-prename descclassname">lantern.</span><span class="sig-name descname">Lamp</span><span
class="sig-paren">(</span><em class="sig-param">wick</em><span class="sig-paren">)</span>
<a class="headerlink" href="#lantern.Lamp" title="Link to this definition">¶</a></dt>
<dd><p>Bases: object. Burns with one wick.</p>
<div class="highlight-python3 notranslate"><div class="highlight"><pre><span></span><span class="kn">import</span> lantern

lamp = lantern.Lamp(<span class="mi">3</span>)
<span class="k">if</span> lamp.lit:
    lamp.trim()
</pre></div></div>
<div class="admonition note"><p class="admonition-title">Note</p><p>Trim the wick once a day.</p></div></dd></dl>
</section></section><div class="clearer"></div></div></div></div>
<div class="sphinxsidebar" role="navigation" aria-label="Main"><div class="sphinxsidebarwrapper"><h3>Table of Contents</h3>
<ul><li><a href="#">Lamps sidebar entry</a></li></ul><div class="searchbox" role="search"><h3>Quick search</h3>
<form class="search" action="search.html"><input type="text" name="q"><input type="submit" value="Go"></form></div></div></div>
</div><div class="footer">&#169;2024, The Lantern people. | Powered by <a href="x">Sphinx 7.4</a> | <a href="_sources/lamps.rst.txt">Page
source</a></div></body></html>""",
    (
        "# Lamps\n",
        "## The class Lamp\n",
        "class lantern.Lamp(wick)",
        "Burns with one wick.",
        "```python3\nimport lantern\n\nlamp = lantern.Lamp(3)\nif lamp.lit:\n    lamp.trim()\n```",
        "Trim the wick once a day.",
        "See below for its methods.",
    ),
    ("¶", "Navigation", "genindex", "modules", "Quick search", "Powered by", "Page source", "sidebar entry"),
)

READTHEDOCS = Page(
    "read the docs",
    """<!DOCTYPE html><html class="writer-html5"><head><title>Dues &mdash; Quay 1.0 documentation</title></head>
<body class="wy-body-for-nav"><div class="wy-grid-for-nav"><nav data-toggle="wy-nav-shift" class="wy-nav-side">
<div class="wy-side-scroll"><a href="index.html" class="icon icon-home">Quay</a><div class="version">1.0</div>
<div class="wy-menu wy-menu-vertical"><p class="caption"><span class="caption-text">Contents of the manual:</span></p>
<ul><li class="toctree-l1"><a href="berths.html">Berths in the menu</a></li></ul></div></div></nav>
<section data-toggle="wy-nav-shift" class="wy-nav-content-wrap"><nav class="wy-nav-top"><a href="index.html">Quay top</a></nav>
<div class="wy-nav-content"><div class="rst-content"><div role="navigation" aria-label="Page navigation">
<ul class="wy-breadcrumbs"><li><a href="index.html" class="icon icon-home"></a></li><li class="breadcrumb-item active">Crumb</li>
<li class="wy-breadcrumbs-aside"><a href="_sources/dues.rst.txt">View page source</a></li></ul><hr/></div>
<div role="main" class="document" itemscope="itemscope"><div itemprop="articleBody">
<section id="dues"><h1>Dues<a class="headerlink" href="#dues" title="Permalink to this heading">&#xf0c1;</a></h1>
<p>Every vessel pays at the office.</p><table class="docutils align-default"><thead><tr class="row-odd">
<th class="head"><p>length</p></th><th class="head"><p>fee</p></th></tr></thead><tbody><tr class="row-even"><td><p>10 m</p></td>
<td><p>4 pounds</p></td></tr></tbody></table>
<aside class="footnote brackets" id="f1" role="doc-footnote"><span class="label">1</span><p>Paid in coin only.</p></aside>
<div class="toctree-wrapper compound"></div></section></div></div>
<footer><div class="rst-footer-buttons" role="navigation" aria-label="Footer"><a href="b.html" class="btn btn-neutral float-left">
Previous</a><a href="c.html" class="btn btn-neutral float-right">Next</a></div><hr/><div role="contentinfo">
<p>&#169; Copyright 2023, Quay people.</p></div>Built with Sphinx using a theme provided by Read the Docs.</footer>
</div></div></section></div></body></html>""",
    (
        "# Dues\n",
        "Every vessel pays at the office.",
        "| length | fee |",
        "| 10 m | 4 pounds |",
        "Paid in coin only.",
    ),
    (
        "Berths in the menu",
        "View page source",
        "Copyright 2023",
        "Built with",
        "Previous",
        "Crumb",
        "Quay top",
    ),
)

FURO = Page(
    "sphinx furo",
    """<!doctype html><html><head><title>Install - Oar 3</title></head><body>
<script>document.body.dataset.theme = "auto";</script>
<svg xmlns="http://www.w3.org/2000/svg" style="display: none;"><symbol id="svg-toc"><title>Contents symbol</title></symbol></svg>
<input type="checkbox" class="sidebar-toggle"><label class="overlay sidebar-overlay"><div class="visually-hidden">Hide navigation
sidebar</div></label><a class="skip-to-content muted-link" href="#furo-main-content">Skip to content</a>
<div class="page"><header class="mobile-header"><div class="header-left"><label class="nav-overlay-icon">Toggle site
navigation</label></div><div class="header-center"><a href="index.html"><div class="brand">Oar 3 brand</div></a></div></header>
<aside class="sidebar-drawer"><div class="sidebar-container"><div class="sidebar-sticky"><a class="sidebar-brand">Oar</a>
<div class="sidebar-tree"><ul class="current"><li class="toctree-l1 current"><a class="current reference internal" href="#">Install
entry</a></li></ul></div></div></div></aside>
<div class="main"><div class="content"><div class="article-container"><a href="#" class="back-to-top muted-link"><span>Back to
top</span></a><div class="content-icon-container"><div class="view-this-page"><a class="muted-link">View this page</a></div></div>
<article role="main" id="furo-main-content"><section id="install"><h1>Install<a class="headerlink" href="#install">#</a></h1>
<ol class="arabic simple"><li><p>Fetch the oar.</p></li><li><p>Grease the lock.</p><ul><li><p>Use tallow.</p></li></ul></li></ol>
<p>Then row <code class="docutils literal notranslate"><span class="pre">oar</span> <span class="pre">--fast</span></code>.</p>
</section></article></div><footer><div class="related-pages"><a class="next-page" href="n.html"><div class="page-info">
<div class="context"><span>Next</span></div><div class="title">Rowing page</div></div></a></div><div class="bottom-of-page">
<div class="copyright">Copyright &#169; 2024, Oar makers</div>Made with Sphinx and furo</div></footer></div>
<aside class="toc-drawer"><div class="toc-sticky"><div class="toc-title-container"><span class="toc-title">On this page</span>
</div></div></aside></div></div></body></html>""",
    ("# Install\n", "1. Fetch the oar.", "2. Grease the lock.", "- Use tallow.", "Then row `oar --fast`."),
    ("Skip to content", "Toggle site", "Install entry", "Back to top", "View this page", "Rowing page", "On this page",
     "Contents symbol", "Made with", "Install#", "brand"),
)  # fmt: skip

MKDOCS = Page(
    "mkdocs material",
    """<!doctype html><html lang="en" class="no-js"><head><title>Nets - Trawl</title></head><body dir="ltr">
<div data-md-component="skip"><a href="#nets" class="md-skip">Skip to content</a></div>
<div data-md-component="announce"></div><header class="md-header"><nav class="md-header__inner md-grid"><a class="md-header__button
md-logo">Trawl logo</a><div class="md-search" role="dialog"><form class="md-search__form"><input placeholder="Search"></form>
<div class="md-search-result__meta">Type to start searching</div></div></nav></header>
<div class="md-container"><nav class="md-tabs"><ul class="md-tabs__list"><li><a href=".">Home tab</a></li></ul></nav>
<main class="md-main"><div class="md-main__inner md-grid"><div class="md-sidebar md-sidebar--primary"><nav class="md-nav">
<ul><li class="md-nav__item"><a class="md-nav__link">Mesh sizes link</a></li></ul></nav></div>
<div class="md-sidebar md-sidebar--secondary"><nav class="md-nav md-nav--secondary" aria-label="Table of contents">
<label class="md-nav__title">Table of contents</label></nav></div>
<div class="md-content" data-md-component="content"><article class="md-content__inner md-typeset">
<a href="https://x/edit" title="Edit this page" class="md-content__button md-icon">Edit</a>
<h1 id="nets">Nets<a class="headerlink" href="#nets" title="Permanent link">&para;</a></h1><p>Nets dry on the rail.</p>
<div class="language-yaml highlight"><pre><span></span><code><span class="nt">mesh</span>: 40
<span class="nt">knots</span>:
  - reef
</code></pre></div><details class="note" open="open"><summary>Mending</summary><p>Use tarred twine.</p></details>
<div class="tabbed-set"><div class="tabbed-labels"><label>Linux</label></div><div class="tabbed-block"><p>Run it there.</p></div></div>
<hr><div class="md-source-file"><small>Last update: <span class="git-revision-date">July 3</span></small></div>
<form class="md-feedback" name="feedback"><fieldset><legend class="md-feedback__title">Was this page helpful?</legend></fieldset></form>
</article></div></div></main><footer class="md-footer"><nav class="md-footer__inner md-grid"><a class="md-footer__link">Next: Floats
page</a></nav><div class="md-copyright">Made with Material for MkDocs</div></footer></div></body></html>""",
    ("# Nets\n", "Nets dry on the rail.", "```yaml\nmesh: 40\nknots:\n  - reef\n```", "Mending", "Use tarred twine.", "Run it there."),
    ("¶", "Skip to", "Trawl logo", "Type to start", "Home tab", "Mesh sizes link", "Table of contents", "Was this page helpful",
     "Floats page", "Made with"),
)  # fmt: skip

MEDIAWIKI = Page(
    "wiki (mediawiki)",
    """<!DOCTYPE html><html class="client-nojs vector-feature" lang="en"><head><title>Skerrin Light - Wiki</title></head>
<body class="skin-vector mediawiki"><a class="mw-jump-link" href="#bodyContent">Jump to content</a>
<div class="vector-header-container"><header class="vector-header mw-header"><div id="vector-main-menu"><ul><li>Random article</li></ul>
</div><div id="p-search" role="search"><form>Search the wiki</form></div><nav class="vector-user-links">Log in</nav></header></div>
<div class="mw-page-container"><div class="vector-sticky-pinned-container"><nav id="mw-panel-toc" class="mw-table-of-contents-container">
<h2 class="vector-pinnable-header-label">Contents</h2><ul><li>1 History entry</li></ul></nav></div>
<main id="content" class="mw-body"><header class="mw-body-header"><h1 id="firstHeading" class="firstHeading">Skerrin Light</h1>
<div class="vector-page-toolbar"><nav><ul><li>Article tab</li><li>Talk</li></ul></nav></div></header>
<div id="bodyContent" class="vector-body"><div id="siteSub" class="noprint">From the wiki of lights</div>
<div id="mw-content-text" class="mw-body-content"><div class="mw-content-ltr mw-parser-output" lang="en" dir="ltr">
<div class="shortdescription nomobile noexcerpt noprint" style="display:none">Tower in the sea</div>
<table class="infobox vcard"><tbody><tr><th colspan="2" class="infobox-above">Skerrin Light</th></tr><tr><th>Height</th>
<td>31&#160;m</td></tr></tbody></table>
<p><b>Skerrin Light</b> is a tower on a rock.<sup id="cite_ref-1" class="reference"><a href="#cite_note-1"><span>[</span>1<span>]</span></a></sup>
It was lit in 1884.</p>
<div class="mw-heading mw-heading2"><h2 id="History">History</h2><span class="mw-editsection"><span class="mw-editsection-bracket">[</span>
<a href="e">edit</a><span class="mw-editsection-bracket">]</span></span></div>
<p>The first keeper came by boat.</p><div role="note" class="hatnote navigation-not-searchable">Main article: Keepers</div>
<table class="wikitable"><caption>Keepers of the light</caption><tbody><tr><th>Name</th><th>From</th></tr><tr><td>Murdo</td><td>1889
</td></tr></tbody></table>
<div class="mw-heading mw-heading2"><h2 id="References">References</h2></div><div class="reflist"><ol class="references">
<li id="cite_note-1"><span class="mw-cite-backlink"><b><a href="#cite_ref-1">^</a></b></span> <span class="reference-text">Raine, Diaries.</span>
</li></ol></div>
<div class="navbox authority-control" role="navigation"><table><tbody><tr><th>Lights of the coast box</th></tr></tbody></table></div>
</div><div class="printfooter">Retrieved from "https://wiki"</div></div><div id="catlinks" class="catlinks">Categories: Towers</div></div></main>
<footer id="footer" class="mw-footer"><ul id="footer-info"><li>This page was last edited on 3 May.</li></ul></footer></div></body></html>""",
    ("# Skerrin Light\n", "Skerrin Light is a tower on a rock.", "It was lit in 1884.", "## History\n", "The first keeper came by boat.",
     "| Name | From |", "| Murdo | 1889 |", "Keepers of the light", "| Height | 31", "Raine, Diaries."),
    ("Jump to content", "Random article", "History entry", "edit]", "[1]", "Tower in the sea", "Lights of the coast box", "Categories:",
     "last edited", "Retrieved from", "Article tab", "Log in"),
)  # fmt: skip

DOKUWIKI = Page(
    "wiki (dokuwiki)",
    """<!DOCTYPE html><html><head><title>rules:mooring [Harbour wiki]</title></head><body>
<div id="dokuwiki__site"><div id="dokuwiki__top" class="site dokuwiki mode_show"><div id="dokuwiki__header"><div class="pad group">
<div class="headings group"><ul class="a11y skip"><li><a href="#dokuwiki__content">skip to content</a></li></ul><h1 class="logo"><a
href="/">Harbour wiki site name</a></h1></div><div class="tools group"><div id="dokuwiki__usertools"><h3 class="a11y">User Tools</h3>
<ul><li>Register</li></ul></div></div><div class="breadcrumbs"><div class="trace"><span class="bchead">Trace:</span></div></div></div></div>
<div class="wrapper group"><div id="dokuwiki__aside"><div class="pad aside include group"><h3 class="toggle">Sidebar</h3><ul><li
class="level1"><div class="li"><a href="/start" class="wikilink1">start page link</a></div></li></ul></div></div><div id="dokuwiki__content"><div class="pad group"><div class="pageId"><span>rules:mooring</span></div>
<div class="page group"><div id="dw__toc" class="dw__toc"><h3 class="toggle">Table of Contents</h3><div><ul><li>Ropes toc</li></ul></div>
</div><h1 class="sectionedit1" id="mooring">Mooring</h1><div class="level1"><p>Moor with two ropes.</p></div>
<h2 class="sectionedit2" id="ropes">Ropes</h2><div class="level2"><ul><li class="level1"><div class="li">bow rope</div></li>
<li class="level1"><div class="li">stern rope</div></li></ul><dl class="file"><dt>a.conf</dt><dd><pre class="code file">rope = 2
  strand = 3</pre></dd></dl></div><div class="secedit editbutton_section"><form><button>Edit section</button></form></div></div>
<div class="docInfo"><bdi>rules/mooring.txt</bdi> · Last modified: 2023 by ann</div></div></div>
<div id="dokuwiki__pagetools"><h3 class="a11y">Page Tools</h3><ul><li>Old revisions</li></ul></div></div>
<div id="dokuwiki__footer"><div class="license">Except where otherwise noted</div></div></div></div></body></html>""",
    ("# Mooring\n", "Moor with two ropes.", "## Ropes\n", "- bow rope\n- stern rope", "```\nrope = 2\n  strand = 3\n```"),
    ("skip to content", "User Tools", "Trace:", "start page link", "Ropes toc", "Edit section", "Old revisions", "Except where otherwise"),
)  # fmt: skip

BLOG = Page(
    "blog (wordpress)",
    """<!DOCTYPE html><html><head><title>Winter on the rock | Keeper's notes</title></head>
<body class="post-template-default single single-post"><a class="skip-link screen-reader-text" href="#content">Skip to content</a>
<header id="masthead" class="site-header"><p class="site-title">Keeper's notes site title</p><nav id="site-navigation"
class="main-navigation"><ul id="primary-menu"><li class="menu-item">About me</li></ul></nav></header>
<div id="content" class="site-content"><div id="primary" class="content-area"><main id="main" class="site-main">
<article id="post-12" class="post type-post hentry category-winter"><header class="entry-header"><h1 class="entry-title">Winter on the
rock</h1><div class="entry-meta"><span class="posted-on">January 7, 2024</span></div></header>
<div class="entry-content"><p>The relief boat came late.</p><blockquote><p>No boat for nine days.</p></blockquote>
<figure class="wp-block-image"><img alt="The tower in snow" src="t.jpg"><figcaption>Snow on the gallery</figcaption></figure>
<h2>What we ate</h2><p>Salt fish, and then less of it.</p>
<div class="sharedaddy sd-sharing-enabled"><h3 class="sd-title">Share this:</h3><ul><li>Twitter button</li></ul></div>
<div id="jp-relatedposts" class="jp-relatedposts"><h3>Related</h3><p>Summer on the rock</p></div></div>
<footer class="entry-footer"><span class="tags-links">Tagged winter</span></footer></article>
<nav class="navigation post-navigation"><div class="nav-previous">Autumn post</div></nav>
<div id="comments" class="comments-area"><h2 class="comments-title">One thought</h2><ol class="comment-list"><li>Nice post indeed!</li></ol>
<div id="respond" class="comment-respond"><h3>Leave a Reply</h3><form>Your email address will not be published.</form></div></div>
</main></div><aside id="secondary" class="widget-area"><section class="widget widget_recent_entries"><h2 class="widget-title">Recent
Posts</h2></section></aside></div><footer id="colophon" class="site-footer">Proudly powered by WordPress</footer>
<div id="cookie-law-info-bar"><span>This website uses cookies to improve your experience. <a>Accept</a></span></div></body></html>""",
    ("# Winter on the rock\n", "The relief boat came late.", "> No boat for nine days.", "Snow on the gallery", "## What we ate\n",
     "Salt fish, and then less of it."),
    ("Skip to", "About me", "Share this", "Twitter button", "Summer on the rock", "Autumn post", "Leave a Reply", "Recent Posts",
     "powered by", "uses cookies", "site title"),
)  # fmt: skip

SHOP = Page(
    "shop",
    """<!DOCTYPE html><html><head><title>Storm lamp – Chandler &amp; Co</title></head><body class="template-product">
<div class="announcement-bar" role="region" aria-label="Announcement">Free shipping over 50 pounds</div>
<header class="site-header"><details-modal class="header__search">Search our shop</details-modal><a href="/cart">Cart (0)</a></header>
<main id="MainContent" class="content-for-layout" role="main"><nav class="breadcrumb"><a href="/">Home crumb</a></nav>
<section class="product"><div class="product__media"><img alt="Lamp"></div><div class="product__info-container"><h1
class="product__title">Storm lamp</h1><div class="price"><span class="visually-hidden">Regular price</span><span>£24.00</span></div>
<form class="product-form" action="/cart/add"><label>Quantity</label><select><option>1</option></select><button
type="submit">Add to cart</button></form>
<div class="product__description rte"><p>Brass lamp that burns in a gale.</p><ul><li>Burns twelve hours.</li><li>Holds half a litre.</li></ul>
<table><tbody><tr><td>Height</td><td>28 cm</td></tr><tr><td>Weight</td><td>1.1 kg</td></tr></tbody></table></div></div></section>
<section class="product-recommendations"><h2>You may also like</h2><ul><li class="card">Ship's bell, £60</li></ul></section></main>
<footer class="footer"><div class="newsletter"><h2>Subscribe to our emails</h2></div><ul class="list-payment"><li>Visa</li></ul></footer>
<div id="onetrust-consent-sdk"><div id="onetrust-banner-sdk" class="otFlat" role="alertdialog" aria-label="Cookie banner"><p>By clicking
"Accept All Cookies", you agree.</p><button>Accept All Cookies</button></div></div>
<div class="modal fade" role="dialog" aria-hidden="true"><p>Choose your country</p></div></body></html>""",
    ("# Storm lamp\n", "£24.00", "Brass lamp that burns in a gale.", "- Burns twelve hours.\n- Holds half a litre.", "| Height | 28 cm |",
     "| Weight | 1.1 kg |"),
    ("Free shipping", "Search our shop", "Cart (0)", "Home crumb", "Add to cart", "You may also like", "Subscribe to", "Visa",
     "Accept All", "Choose your country"),
)  # fmt: skip

NEWS = Page(
    "news",
    """<!doctype html><html><head><title>Ferry stops for a week - The Skerrin Post</title></head><body>
<div id="gdpr-consent-tool" class="cmp-container"><p>We and our 312 partners store information on a device.</p></div>
<header role="banner"><div class="masthead">The Skerrin Post masthead</div><nav role="navigation"><a>Sport section</a></nav></header>
<div class="ad-slot ad-leaderboard"><span>Advertisement</span></div>
<main><article><div class="headline-block"><h1>Ferry stops for a week</h1><p class="standfirst">A broken shaft keeps the boat at the
quay.</p></div><div class="byline">By Ann Marsh</div><div class="article-body"><p>The ferry will not sail before Monday, the owner
said.</p><div class="ad-container">Story continues below advertisement</div><p>Mail goes by fishing boat.</p>
<aside class="pullquote"><p>"We have bread for four days."</p></aside>
<h2>No date yet</h2><p>The shaft comes from Oban.</p>
<div class="inline-newsletter newsletter-signup"><p>Get the morning briefing</p><input type="email"></div></div>
<section class="most-read"><h2>Most read</h2><ol><li>Bell rings by itself</li></ol></section></article></main>
<aside class="rail right-rail"><h3>Opinion rail</h3></aside>
<footer role="contentinfo"><p>Terms of Use</p></footer></body></html>""",
    ("# Ferry stops for a week\n", "A broken shaft keeps the boat at the quay.", "The ferry will not sail before Monday",
     "Mail goes by fishing boat.", "## No date yet\n", "The shaft comes from Oban.", "We have bread for four days."),
    ("312 partners", "masthead", "Sport section", "Advertisement", "below advertisement", "morning briefing", "Bell rings", "Opinion rail",
     "Terms of Use"),
)  # fmt: skip

FORUM = Page(
    "questions and answers",
    """<!DOCTYPE html><html itemscope itemtype="https://schema.org/QAPage"><head><title>rope - How to splice? - Sailors</title></head>
<body class="question-page"><div id="notify-container"></div><header class="s-topbar js-top-bar"><ol class="s-topbar--content"><li>Log in
to Sailors</li></ol></header><div class="container"><div id="left-sidebar"><nav><ol class="nav-links"><li>Users link</li></ol></nav></div>
<div id="content" class="snippet-hidden"><div id="mainbar" role="main" aria-label="question and answers"><div id="question-header"><h1
class="fs-headline1"><a class="question-hyperlink">How do I splice a wet rope?</a></h1></div>
<div class="question" id="question"><div class="votecell"><div class="js-vote-count">17</div></div><div class="postcell">
<div class="s-prose js-post-body"><p>My rope is wet and stiff.</p><pre class="lang-py"><code>rope.soak(hours=2)
</code></pre></div><div class="post-menu">Share Improve this question Follow</div></div></div>
<div id="answers"><div class="answers-subheader"><h2>1 Answer</h2></div><div id="answer-5" class="answer"><div class="answercell"><div
class="s-prose js-post-body"><p>Warm it over the stove first.</p></div><div class="post-menu">Share Improve this answer</div></div></div>
<h2 class="bottom-notice">Your Answer</h2><form id="post-form" class="post-form"><div>Thanks for contributing</div></form></div></div>
<div id="sidebar" role="complementary" aria-label="sidebar"><div class="module sidebar-related"><h4>Related questions</h4></div></div></div>
</div><footer id="footer" class="site-footer">Site design</footer></body></html>""",
    ("# How do I splice a wet rope?\n", "My rope is wet and stiff.", "```py\nrope.soak(hours=2)\n```", "Warm it over the stove first."),
    ("Log in to", "Users link", "Improve this", "Thanks for contributing", "Related questions", "Site design"),
)  # fmt: skip

GOVERNMENT = Page(
    "government",
    """<!DOCTYPE html><html lang="en" class="govuk-template"><head><title>Register a boat - Office of boats</title></head>
<body class="govuk-template__body js-enabled"><div id="global-cookie-message" class="gem-c-cookie-banner govuk-cookie-banner"
role="region" aria-label="Cookies"><h2>Cookies on this site</h2><p>We use some essential cookies.</p></div>
<a href="#content" class="govuk-skip-link">Skip to main content</a><header role="banner" class="govuk-header">Menu of topics</header>
<div class="govuk-width-container"><nav class="gem-c-contextual-breadcrumbs"><ol><li>Boats and harbours crumb</li></ol></nav>
<main role="main" id="content" class="detailed-guide" lang="en"><h1 class="gem-c-title__text">Register a boat</h1>
<div class="gem-c-contents-list" role="navigation"><h2>Contents</h2><ol><li>Who must register (list)</li></ol></div>
<div class="govspeak"><h2 id="who">Who must register</h2><p>Every boat over three metres.</p>
<div role="note" class="application-notice info-notice"><p>You cannot register by post.</p></div>
<details class="govuk-details"><summary>Fees for trade boats</summary><div>Trade boats pay 40 pounds.</div></details>
<dl><dt>Term</dt><dd>Five years.</dd></dl></div></main>
<div class="gem-c-feedback"><h2>Is this page useful?</h2><button>Yes</button></div></div>
<footer class="govuk-footer" role="contentinfo"><p>All content is available under a licence</p></footer></body></html>""",
    ("# Register a boat\n", "## Who must register\n", "Every boat over three metres.", "You cannot register by post.",
     "Trade boats pay 40 pounds.", "Five years."),
    ("essential cookies", "Skip to main", "Menu of topics", "Boats and harbours crumb", "(list)", "Is this page useful", "All content"),
)  # fmt: skip

DOCUSAURUS = Page(
    "docusaurus",
    """<!doctype html><html class="docs-wrapper plugin-docs"><head><title>Signals | Flag</title></head><body class="navigation-with-keyboard">
<div id="__docusaurus"><div role="region" aria-label="Skip to main content"><a class="skipToContent_x" href="#main">Skip to main
content</a></div><nav aria-label="Main" class="navbar navbar--fixed-top"><b>Flag title</b></nav>
<div id="__docusaurus_skipToContent_fallback" class="main-wrapper"><div class="docsWrapper_h"><aside
class="theme-doc-sidebar-container"><ul class="theme-doc-sidebar-menu menu__list"><li>Pennants item</li></ul></aside>
<main class="docMainContainer_T"><div class="container"><div class="row"><div class="col docItemCol_V"><div class="docItemContainer_D">
<article><nav class="theme-doc-breadcrumbs" aria-label="Breadcrumbs"><ul><li>Home page crumb</li></ul></nav><span
class="theme-doc-version-badge badge">Version: 2</span><div class="theme-doc-markdown markdown"><header><h1>Signals</h1></header>
<p>Two flags say <em>danger</em>.</p><h2 class="anchor" id="night">At night<a href="#night" class="hash-link" aria-label="Direct link
to At night" title="Direct link to At night">&#8203;</a></h2><p>Lamps take their place.</p>
<div class="language-bash codeBlockContainer_C"><div class="codeBlockContent_b"><pre class="prism-code language-bash"><code
class="codeBlockLines_e"><span class="token-line">flag hoist a<br></span><span class="token-line">flag lower a<br></span></code></pre>
<div class="buttonGroup__atx"><button>Copy</button></div></div></div>
<div class="theme-admonition theme-admonition-tip alert"><div class="admonitionHeading_G">tip</div><div><p>Wash the flags in fresh
water.</p></div></div></div><footer class="theme-doc-footer"><div class="theme-doc-footer-edit-meta-row"><a>Edit this page</a></div>
</footer></article><nav class="pagination-nav" aria-label="Docs pages"><a>Next Horns</a></nav></div></div>
<div class="col col--3"><div class="tableOfContents_b thin-scrollbar"><ul class="table-of-contents"><li>At night (toc)</li></ul></div></div>
</div></div></main></div></div><footer class="footer footer--dark">Copyright 2024 Flag</footer></div></body></html>""",
    ("# Signals\n", "Two flags say danger.", "## At night\n", "Lamps take their place.", "flag hoist a\nflag lower a\n```",
     "Wash the flags in fresh water."),
    ("Skip to main", "Pennants item", "Home page crumb", "Copy", "Edit this page", "Next Horns", "(toc)", "Flag title"),
)  # fmt: skip

OLD_TABLES = Page(
    "layout tables of the nineties",
    """<HTML><HEAD><TITLE>Knots</TITLE></HEAD><BODY BGCOLOR=#FFFFFF>
<TABLE WIDTH=100% BORDER=0><TR><TD COLSPAN=2><FONT SIZE=5>Skerrin Sailing School</FONT></TD></TR>
<TR><TD WIDTH=150 VALIGN=top><A HREF=index.htm>Home page</A><BR><A HREF=boats.htm>Our boats</A><BR><A HREF=map.htm>How to find us</A><BR>
<A HREF=guest.htm>Guest book</A></TD>
<TD VALIGN=top><H1>Knots</H1><P>The bowline does not slip.<P>Tie it like this:<UL><LI>make a loop<LI>pass the end through<LI>pull</UL>
<P>Then test it.<HR></TD></TR></TABLE></BODY></HTML>""",
    ("# Knots\n", "The bowline does not slip.", "Tie it like this:", "- make a loop\n- pass the end through\n- pull", "Then test it."),
    ("Guest book", "Our boats"),
)  # fmt: skip

WORD = Page(
    "saved from a word processor",
    """<html xmlns:o="urn:schemas-microsoft-com:office:office" xmlns:w="urn:schemas-microsoft-com:office:word"><head>
<meta name=Generator content="Microsoft Word 15"><title>Minutes</title><style><!-- p.MsoNormal {margin:0cm} --></style>
<!--[if gte mso 9]><xml><w:WordDocument><w:View>Normal</w:View></w:WordDocument></xml><![endif]--></head>
<body lang=EN-GB style='tab-interval:36.0pt'><div class=WordSection1><h1><span lang=EN-US>Minutes of the board<o:p></o:p></span></h1>
<p class=MsoNormal><o:p>&nbsp;</o:p></p><p class=MsoNormal>The board met
at noon.<o:p></o:p></p><p class=MsoListParagraph><![if !supportLists]><span style='mso-list:Ignore'>1.<span>&nbsp;&nbsp;</span></span>
<![endif]>Lamps were bought.<o:p></o:p></p><table class=MsoTableGrid><tr><td><p class=MsoNormal>Item</p></td><td><p class=MsoNormal>Cost</p>
</td></tr><tr><td><p class=MsoNormal>Oil</p></td><td><p class=MsoNormal>9</p></td></tr></table></div></body></html>""",
    ("# Minutes of the board\n", "The board met at noon.", "Lamps were bought.", "| Item | Cost |", "| Oil | 9 |"),
    ("supportLists", "Normal</", "MsoNormal", "endif"),
)  # fmt: skip

BOOK = Page(
    "book (plain pages)",
    """<?xml version='1.0' encoding='utf-8'?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "x.dtd">
<html xmlns="http://www.w3.org/1999/xhtml"><head><title>The Keeper's Daughter</title></head><body>
<h1>THE KEEPER'S DAUGHTER</h1><div class="chapter"><h2><a id="chap01"></a>Chapter I.<br/>The Boat</h2>
<p class="drop-cap">It was past midnight when the <i>Petrel</i> came in.</p>
<p><span class="pagenum"><a id="Page_2">[Pg 2]</a></span>She had lost her mast.</p>
<div class="poem"><div class="stanza"><span class="i0">Light the lamp,<br/></span><span class="i0">trim the wick.<br/></span></div></div>
<hr class="tb"/><p>"Come in," said Ann; "you are wet."</p></div></body></html>""",
    ("# THE KEEPER'S DAUGHTER\n", "## Chapter I. The Boat\n", "when the Petrel came in.", "She had lost her mast.",
     "Light the lamp,\ntrim the wick.", '"Come in," said Ann; "you are wet."'),
    ("[Pg 2]",),
)  # fmt: skip

PAPER = Page(
    "paper (latexml)",
    """<!DOCTYPE html><html lang="en"><head><title>Fog signals at low tide</title></head><body><nav class="ltx_page_navbar"><nav
class="ltx_TOC"><ol class="ltx_toclist"><li>1 Introduction toc</li></ol></nav></nav><div class="ltx_page_main">
<div class="ltx_page_content"><article class="ltx_document ltx_authors_1line"><h1 class="ltx_title ltx_title_document">Fog signals at low
tide</h1><div class="ltx_authors"><span class="ltx_personname">Ann Marsh</span></div><div class="ltx_abstract"><h6 class="ltx_title
ltx_title_abstract">Abstract</h6><p class="ltx_p">Sound bends over cold water.</p></div>
<section id="S1" class="ltx_section"><h2 class="ltx_title ltx_title_section"><span class="ltx_tag ltx_tag_section">1 </span>Introduction</h2>
<div class="ltx_para"><p class="ltx_p">Horns are heard at <math alttext="x=3"><semantics><mi>x</mi><annotation
encoding="application/x-tex">x=3</annotation></semantics></math> miles <cite class="ltx_cite">[<a href="#bib1">4</a>]</cite>.</p></div>
<section class="ltx_subsection"><h3 class="ltx_title"><span class="ltx_tag">1.1 </span>Related work</h3><p class="ltx_p">Few have measured
it.</p></section></section></article></div><footer class="ltx_page_footer">Generated on May 3 by LaTeXML</footer></div></body></html>""",
    ("# Fog signals at low tide\n", "Sound bends over cold water.", "## 1 Introduction\n", "Horns are heard at", "### 1.1 Related work\n",
     "Few have measured it."),
    ("Introduction toc", "Generated on"),
)  # fmt: skip

README = Page(
    "code host",
    """<!DOCTYPE html><html><head><title>GitHost - ann/buoy: Buoys for boats</title></head><body class="logged-out"><div
class="position-relative js-header-wrapper"><a href="#start-of-content" class="show-on-focus">Skip to content</a><header
class="HeaderMktg header-logged-out" role="banner"><nav>Pricing page</nav></header></div><div class="application-main"><main>
<div id="repository-container-header"><nav class="UnderlineNav"><ul><li>Issues 12</li></ul></nav></div>
<turbo-frame><div class="Layout"><div class="Layout-main"><table aria-labelledby="folders-and-files"><thead><tr><th>Name</th><th>Last commit
message</th></tr></thead><tbody><tr><td>setup.cfg file</td><td>Bump</td></tr></tbody></table>
<article class="markdown-body entry-content container-lg" itemprop="text"><div class="markdown-heading"><h1 class="heading-element">buoy</h1>
<a id="user-content-buoy" class="anchor" aria-label="Permalink: buoy" href="#buoy"><svg></svg></a></div><p>Keeps a list of buoys.</p>
<div class="highlight highlight-source-shell notranslate"><pre>pip install buoy</pre><div class="zeroclipboard-container"><clipboard-copy>
</clipboard-copy></div></div><ul class="contains-task-list"><li class="task-list-item"><input type="checkbox" checked> paint the
buoys</li></ul></article></div><div class="Layout-sidebar"><h2>About</h2><p>Stars 40</p></div></div></turbo-frame></main></div>
<footer class="footer" role="contentinfo">© 2024 GitHost, Inc.</footer></body></html>""",
    ("# buoy\n", "Keeps a list of buoys.", "pip install buoy\n```", "paint the buoys"),
    ("Skip to content", "Pricing page", "Issues 12", "Stars 40", "GitHost, Inc", "setup.cfg file"),
)  # fmt: skip

FRAGMENT = Page(
    "fragment without a body",
    """<h3>Tides</h3><p>High water at <b>six</b>.</p><p>Low water at noon.</p>
<script type="application/ld+json">{"@type": "Thing"}</script><ul><li>spring tide</li><li>neap tide</li></ul>""",
    ("### Tides\n", "High water at six.", "Low water at noon.", "- spring tide\n- neap tide"),
    ("@type",),
)

CONFLUENCE = Page(
    "team wiki (confluence)",
    """<!DOCTYPE html><html><head><title>On-call rota - Ops - Confluence</title></head><body id="com-atlassian-confluence"
class="theme-default aui-layout"><ul id="assistive-skip-links" class="assistive"><li><a href="#title-heading">Skip to breadcrumbs</a></li></ul>
<div id="page"><div id="full-height-container"><div id="header-precursor"></div><header id="header" role="banner"><nav
class="aui-header">Spaces menu</nav></header><div class="ia-splitter"><div class="ia-fixed-sidebar"><div class="acs-side-bar">Page tree
side</div></div><div id="main" class="aui-page-panel"><div id="main-header"><div id="navigation" class="content-navigation"><ul><li><a href="#"
id="watch-content-button">Watch button</a></li></ul></div><h1 id="title-heading" class="pagetitle"><span id="title-text"><a href="/p">On-call rota</a></span></h1></div>
<div id="content" class="page view"><div class="page-metadata"><ul><li>Created by Ann, last modified on May 3</li></ul></div>
<div id="main-content" class="wiki-content"><div class="toc-macro client-side-toc-macro"></div><p>Two keepers share a week.</p>
<div class="table-wrap"><table class="confluenceTable"><tbody><tr><th class="confluenceTh"><p>Week</p></th><th class="confluenceTh"><p>Who</p></th>
</tr><tr><td class="confluenceTd"><p>1</p></td><td class="confluenceTd"><ul><li>Ann</li><li>Murdo</li></ul></td></tr></tbody></table></div>
<div class="confluence-information-macro confluence-information-macro-warning"><div class="confluence-information-macro-body"><p>Never leave
the lamp alone.</p></div></div></div><div id="likes-and-labels-container">Like Be the first to like this</div>
<div id="comments-section" class="pageSection"><form>Write a comment…</form></div></div></div></div>
<div id="footer" role="contentinfo"><section class="footer-body">Printed by Confluence</section></div></div></div></body></html>""",
    ("# On-call rota\n", "Two keepers share a week.", "| Week | Who |", "| 1 | Ann; Murdo |", "Never leave the lamp alone."),
    ("Skip to breadcrumbs", "Spaces menu", "Page tree", "Watch button", "Be the first", "Write a comment", "Printed by"),
)  # fmt: skip

LANDING = Page(
    "landing page (bootstrap)",
    """<!doctype html><html><head><title>Pilotage – book a pilot</title></head><body><nav class="navbar navbar-expand-lg"><a
class="navbar-brand">Pilotage brand</a><div class="dropdown-menu"><a class="dropdown-item">Team link</a></div></nav>
<section class="hero"><div class="container"><h1>Book a pilot</h1><p class="lead">From any berth, at any hour.</p><a class="btn
btn-primary">Start now</a></div></section><section class="features"><div class="container"><h2>What it costs</h2><div class="row"><div
class="col"><h3>Small boats</h3><p>Twelve pounds an hour.</p></div><div class="col"><h3>Ships</h3><p>By tonnage.</p></div></div></div></section>
<section id="faq"><h2>Questions</h2><div class="accordion"><div class="accordion-item"><h3 class="accordion-header"><button
class="accordion-button">Can I cancel?</button></h3><div class="accordion-collapse collapse"><div class="accordion-body">Until noon the day
before.</div></div></div></div></section>
<footer class="bg-dark text-white"><div class="container"><h5>Company</h5><ul><li>Imprint link</li></ul></div></footer></body></html>""",
    ("# Book a pilot\n", "From any berth, at any hour.", "## What it costs\n", "### Small boats\n", "Twelve pounds an hour.", "By tonnage.",
     "### Can I cancel?\n", "Until noon the day before."),
    ("Pilotage brand", "Team link", "Imprint link"),
)  # fmt: skip

JAVADOC = Page(
    "javadoc",
    """<!DOCTYPE HTML><html lang="en"><head><title>Winch (rigging 4)</title></head><body class="class-declaration-page"><div
class="flex-box"><header role="banner" class="flex-header"><nav role="navigation"><div class="top-nav" id="navbar-top"><div
class="skip-nav"><a href="#skip">Skip navigation links</a></div><ul class="nav-bar-list"><li>Deprecated list</li></ul></div><div
class="sub-nav"><ul class="sub-nav-list"><li>Summary: Nested</li></ul></div></nav></header><div class="flex-content"><main role="main">
<div class="header"><div class="sub-title"><span>Package</span> rigging</div><h1 title="Class Winch" class="title">Class Winch</h1></div>
<section class="class-description" id="class-description"><div class="type-signature"><span class="modifiers">public class </span><span
class="element-name">Winch</span></div><div class="block">Hauls a rope with a drum.</div></section>
<section class="details"><ul class="details-list"><li><section class="method-details"><h2>Method Details</h2><ul class="member-list"><li>
<section class="detail" id="haul(int)"><h3>haul</h3><div class="member-signature"><span class="return-type">void</span> <span
class="element-name">haul</span>(int turns)</div><div class="block">Turns the drum.</div><dl class="notes"><dt>Parameters:</dt><dd>turns -
how often</dd></dl></section></li></ul></section></li></ul></section></main><footer role="contentinfo"><p class="legal-copy">Copyright 2024
riggers</p></footer></div></div></body></html>""",
    ("# Class Winch\n", "public class Winch", "Hauls a rope with a drum.", "## Method Details\n", "### haul\n", "void haul(int turns)",
     "Turns the drum.", "turns - how often"),
    ("Skip navigation", "Deprecated list", "Summary: Nested", "riggers"),
)  # fmt: skip

PAGES = (
    SPHINX, READTHEDOCS, FURO, MKDOCS, MEDIAWIKI, DOKUWIKI, BLOG, SHOP, NEWS, FORUM, GOVERNMENT, DOCUSAURUS, OLD_TABLES, WORD, BOOK,
    PAPER, README, FRAGMENT, CONFLUENCE, LANDING, JAVADOC,
)  # fmt: skip

# Written after the rules had been settled on the pages above, and not used to change them.
LATER = (
Page("restaurant","""<html><head><title>The Mess</title></head><body><div id="header"><div class="logo">The Mess</div><div id="menu"><a href=a>Home</a> <a href=b>Book</a> <a href=c>Find us</a></div></div>
<div id="wrapper"><h1>Lunch</h1><div class="menu-card"><h2>Soups</h2><div class="menu-item"><span>Fish soup</span> <span>5.50</span></div><div class="menu-item"><span>Kale soup</span> <span>4.20</span></div></div>
<p>We open at noon and close when the fish is gone.</p></div><div id="footer">Imprint and privacy</div></body></html>""",
("# Lunch\n","## Soups\n","Fish soup 5.50","Kale soup 4.20","We open at noon"),("Book","Imprint and privacy")),
Page("asp form","""<html><head><title>Tide tables</title></head><body><form name="aspnetForm" method="post" action="t.aspx" id="aspnetForm"><input type="hidden" name="__VIEWSTATE" value="x"/>
<div class="header"><a href="1">Home</a><a href="2">Contact us</a></div><div id="ctl00_content"><h1>Tide tables</h1><p>High water is about fifty minutes later each day.</p>
<table><tr><td>Mon</td><td>06:10</td></tr><tr><td>Tue</td><td>07:00</td></tr></table><input type="submit" value="Print"/></div><div class="footer"><span>Copyright Harbour board</span></div></form></body></html>""",
("# Tide tables\n","High water is about fifty","| Mon | 06:10 |"),("Contact us","Copyright Harbour")),
Page("discourse","""<html><head><title>Oiling a block - Talk - Riggers</title></head><body class="crawler"><header><a href="/">Riggers forum</a></header><div id="main-outlet" class="wrap" role="main"><div id="topic-title"><h1><a href="/t/9">Oiling a block</a></h1><div class="topic-category"><a href="/c">Talk category</a></div></div>
<div itemscope itemtype="http://schema.org/DiscussionForumPosting"><div id="post_1" class="topic-body crawler-post"><div class="crawler-post-meta"><span class="creator"><a>ann</a></span></div><div class="post" itemprop="text"><p>Which oil do you use?</p></div></div>
<div id="post_2" class="topic-body crawler-post"><div class="post" itemprop="text"><p>Linseed, twice a year.</p></div></div></div><div id="related-topics" class="more-topics__list"><h3>Related topics</h3><a href="t">Tarring ropes</a></div></div>
<footer class="container wrap"><nav class="crawler-nav"><ul><li><a href="/about">Guidelines page</a></li></ul></nav></footer></body></html>""",
("# Oiling a block\n","Which oil do you use?","Linseed, twice a year."),("Riggers forum","Guidelines page","Tarring ropes")),
Page("jekyll minima","""<html><head><title>Ice | Log</title></head><body><header class="site-header" role="banner"><div class="wrapper"><a class="site-title" rel="author" href="/">Log of the tower</a><nav class="site-nav"><div class="trigger"><a class="page-link">About page</a></div></nav></div></header>
<main class="page-content" aria-label="Content"><div class="wrapper"><article class="post h-entry"><header class="post-header"><h1 class="post-title p-name">Ice</h1><p class="post-meta"><time>Jan 3</time></p></header><div class="post-content e-content"><p>Ice on the gallery rail.</p><div class="language-sh highlighter-rouge"><div class="highlight"><pre class="highlight"><code>chip --slow
</code></pre></div></div></div><a class="u-url" href="/x" hidden></a></article></div></main><footer class="site-footer h-card"><div class="wrapper"><h2 class="footer-heading">Log footer</h2></div></footer></body></html>""",
("# Ice\n","Ice on the gallery rail.","```sh\nchip --slow\n```"),("About page","Log footer","Log of the tower")),
Page("help centre","""<html><head><title>Changing a berth – Help Center</title></head><body><a class="skip-navigation" href="#main-content">Skip to main content</a><header class="header"><div class="logo">Berth help</div><nav class="user-nav"><a>Submit a request</a></nav></header><main role="main"><div class="container-divider"></div><div class="container"><div class="sub-nav"><ol class="breadcrumbs"><li><a>Help home</a></li></ol><form class="search"><input type="search" placeholder="Search"></form></div>
<div class="article-container"><aside class="article-sidebar"><div class="collapsible-sidebar"><h3 class="collapsible-sidebar-title">Articles in this section</h3><ul><li><a>Paying dues</a></li></ul></div></aside><article class="article"><header class="article-header"><h1 class="article-title">Changing a berth</h1></header><section class="article-info"><div class="article-body"><p>Ask the master <strong>before</strong> Friday.</p><ol><li>Go to the office.</li><li>Sign the list.</li></ol></div></section><footer><div class="article-votes"><span>Was this article helpful?</span></div></footer><div class="article-relatives"><section class="recent-articles"><h2>Recently viewed articles</h2></section></div></article></div></div></main><footer class="footer">Powered by desk</footer></body></html>""",
("# Changing a berth\n","Ask the master before Friday.","1. Go to the office.\n2. Sign the list."),("Skip to","Submit a request","Help home","Paying dues","Was this article helpful","Powered by desk")),
Page("nested sections","""<html><head><title>Plan</title></head><body><article><h1>Plan</h1><p>The whole plan.</p><section><h1>Spring</h1><p>Paint the boats.</p><section><h1>April</h1><p>Scrape first.</p></section></section><section><h1>Summer</h1><p>Row.</p></section></article></body></html>""",
("# Plan\n","## Spring\n","### April\n","## Summer\n"),()),
Page("notion","""<html><head><title>Stores</title><style>.x{}</style></head><body><article id="1" class="page sans"><header><div class="page-header-icon undefined"><span class="icon">🛶</span></div><h1 class="page-title">Stores</h1><p class="page-description"></p></header><div class="page-body"><p id="a" class="">What the tower needs.</p><ul id="b" class="to-do-list"><li><div class="checkbox checkbox-off"></div> <span class="to-do-children-unchecked">paraffin</span></li></ul><ul class="toggle"><li><details open=""><summary>Food</summary><p>Flour and peas.</p></details></li></ul><figure class="block-color-gray_background callout" style="white-space:pre-wrap"><div style="width:100%">Order before May.</div></figure></div></article><span class="sans" style="font-size:14px;padding-top:2em"></span></body></html>""",
("# Stores\n","What the tower needs.","paraffin","Flour and peas.","Order before May."),()),
Page("drupal","""<html><head><title>Pilots | Port</title></head><body class="path-node page-node-type-page"><a href="#main-content" class="visually-hidden focusable skip-link">Skip to main content</a><div class="dialog-off-canvas-main-canvas"><div class="layout-container"><header role="banner"><div class="region region-header"><div class="block-system-branding-block">Port brand</div></div></header><div class="region region-breadcrumb">Home / Crumb</div><div class="region region-highlighted"><div data-drupal-messages-fallback class="hidden"></div></div><main role="main"><a id="main-content"></a><div class="layout-content"><div class="region region-content"><div class="block-page-title-block"><h1 class="page-title"><span>Pilots</span></h1></div><nav class="tabs" role="navigation" aria-label="Tabs"><ul class="tabs primary"><li>View tab</li></ul></nav><article class="node node--type-page"><div class="node__content"><div class="field field--name-body"><p>Pilots board at the buoy.</p><h2>Charges</h2><p>By the hour, day and night.</p></div><div class="field field--name-field-tags field--label-above"><div class="field__label">Tags</div></div></div></article></div></div><aside class="layout-sidebar-first" role="complementary"><div class="block">Poll of the week</div></aside></main><footer role="contentinfo">Port of Skerrin trust</footer></div></div></body></html>""",
("# Pilots\n","Pilots board at the buoy.","## Charges\n","By the hour, day and night."),("Skip to","Port brand","Crumb","View tab","Poll of","trust")),
)  # fmt: skip
