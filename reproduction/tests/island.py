"""A document of our own for tests of the methods, with what is asked about it."""

from sage_eval.records import EvalDocument, EvalQuestion, Evidence

from sage_core.text.spans import Span

PARAGRAPHS = [
    "The island of Hestran lies forty miles off the coast. Two hundred people live there all year. "
    "In summer twice as many come for the birds.",
    "The ferry leaves the mainland at seven in the morning. It takes three hours in calm weather. "
    "A storm keeps it in the harbour for days. The captain decides at six whether to sail.",
    "The lighthouse was built in 1871 by the engineer Maren Tolk. Its lamp burned whale oil for thirty years. "
    "The keeper climbed one hundred and ninety steps every evening. Electric light came in 1903.",
    "Nineteen seals lie on the northern rocks in spring. The warden counts them from a boat. "
    "Visitors must keep two hundred metres away. Dogs are not allowed on the northern path.",
    "Bread is baked every second day. The bakery stands behind the church. Its oven is fired with driftwood. "
    "Rye comes from the mainland, and barley is grown on the island.",
    "The school has eleven pupils and one teacher. Lessons begin at half past eight. "
    "Older children cross to the mainland on Mondays and come back on Fridays.",
    "Water comes from a spring below the hill. A pump was put in after the dry summer of 1976. "
    "The tank holds sixty thousand litres. In a dry year the hotel must ration baths.",
    "The museum shows the wreck of the Ardent. She ran aground in fog in 1888. All but two of her crew were "
    "saved. The ship's bell hangs in the church to this day.",
]

DOCUMENT = EvalDocument(
    "island", "\n\n".join(PARAGRAPHS), "Hestran", "A guide to an island of two hundred people."
)


def question(text, options=(), gold=None, evidence=""):
    marked = ()
    if evidence:
        start = DOCUMENT.text.index(evidence)
        marked = (Evidence("island", Span(start, start + len(evidence))),)
    return EvalQuestion(text[:40], "island", text, (), marked, tuple(options), gold)


LIGHTHOUSE = question("Who built the lighthouse?", evidence="The lighthouse was built in 1871")
SEALS = question("How many seals lie on the northern rocks?", ["Nine", "Nineteen", "Ninety"], 1)
NOTHING = question("zebra quantum xylophone")
