"""Hold the prompts that are sent when a user names none.

Three and more for each category in which drafters are known to do differently well, of our own writing.
"""

from __future__ import annotations

_CODING_LRU = """\
Complete this Python class. Keep the type hints and add a docstring to every method.

```python
from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self._capacity = capacity
        self._items: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, default: V | None = None) -> V | None:
```"""

_CODING_SQL = """\
I have two SQL tables, orders(id, customer_id, placed_at, total_cents) and customers(id, name, region).
Write a query that lists, for every region, the three customers with the highest spending over the last 90
days, together with their share of the region's total. It runs on PostgreSQL 16. Then show the index you
would add."""

_CODING_REFACTOR = """\
Refactor this JavaScript function so that it uses async/await, handles a failed request, and has no nested
callbacks. Return only the code.

function loadProfile(id, done) {
  fetch('/api/users/' + id).then(function (response) {
    response.json().then(function (user) {
      fetch('/api/teams/' + user.teamId).then(function (second) {
        second.json().then(function (team) {
          done(null, { name: user.name, team: team.title });
        });
      });
    });
  });
}"""

_CODING_TESTS = """\
Write pytest unit tests for the function below. Cover the empty list, one reading, a gap longer than the
limit, and readings that arrive out of order.

def split_into_sessions(timestamps: list[float], max_gap: float) -> list[list[float]]:
    sessions: list[list[float]] = []
    for stamp in sorted(timestamps):
        if sessions and stamp - sessions[-1][-1] <= max_gap:
            sessions[-1].append(stamp)
        else:
            sessions.append([stamp])
    return sessions"""

_MATH_TANK = """\
A tank holds 1200 litres. One pipe fills it at 18 litres per minute and another empties it at 11 litres
per minute. It starts a quarter full with both pipes open. After 40 minutes the outlet is closed.
Calculate how long it takes in all until the tank is full, and show each equation."""

_MATH_INTEGRAL = """\
Evaluate the definite integral of x^2 * e^(-x) from x = 0 to x = 3. Integrate by parts, write out every
line, and check the result by differentiating the antiderivative."""

_MATH_CHOOSE = """\
A committee of 5 is chosen from 7 engineers and 6 designers. How many ways are there if at least two
designers must be on it and two particular engineers refuse to serve together? Compute the number exactly."""

_MULTILINGUAL_TRANSLATE = """\
Translate the following notice into German and into Japanese. Keep it polite and keep the times as they
are.

The lift in the north stairwell will be out of service on Thursday from 8:00 to 15:30 while its cables
are replaced. Residents who cannot use the stairs may ask the caretaker for the goods lift."""

_MULTILINGUAL_FRENCH = """\
Explique en français, à une personne qui n'a jamais programmé, comment fonctionne un compilateur. Pourquoi
un programme écrit une seule fois peut-il tourner sur des machines différentes, et quelle est la
différence avec un interpréteur ? Donne un exemple tiré de la cuisine."""

_MULTILINGUAL_CHINESE = """\
请用中文写一封简短的邮件，通知团队周五的会议改到下周二上午十点，地点不变，
并请大家提前把报告发给我。
然后把这封邮件翻译成西班牙语。"""

_QA_TIDES = "Why are there two high tides a day on most coasts and not one? Answer briefly."
_QA_HTTP = "What is the difference between the HTTP status codes 401 and 403? Short answer, please."
_QA_BREAD = "How many hours should a sourdough loaf made at 24 °C prove before it goes into the oven?"
_QA_PLANET = "Which planet of the solar system has the longest day, and how long is it in one sentence?"

_RAG_LEAVE = """\
Answer using only the context below and cite the passage numbers. If the answer is not in the context, say
so.

Context:
[1] Employees accrue 2.25 days of annual leave for every full month worked. Part-time staff accrue in
proportion to their contracted hours.
[2] Up to eight days of unused leave may be carried over into the next calendar year. They lapse on 31
March unless illness prevented the employee from taking them.
[3] Leave during the first six months needs the approval of the line manager and of the people team.

Question: I work three days a week and joined in May. How many of my unused days can I carry over, and
until when may I take them?"""

_RAG_ROUTER = """\
You are given excerpts of a product manual. Based on these documents, tell the customer what to do, and
name the document you rely on.

Document 1: The status light of the WR-40 blinks amber while the device looks for a gateway. Steady amber
means that a gateway was found but refused the credentials.
Document 2: To reset the credentials hold the recessed button for twelve seconds until the light turns
white. All port forwarding rules are kept.
Document 3: Firmware before 3.1 keeps the old password in its cache for up to ten minutes after a reset.

Customer: After I changed the password of my gateway the light is steady amber, even after a reset five
minutes ago."""

_RAG_BRIDGE = """\
Passage: The footbridge at Aldermoor was closed in 2019 after an inspection found that three of its eleven
timber piles had lost more than half of their section to shipworm. A temporary steel span was opened
fourteen months later. The council put the cost of a permanent replacement at 2.4 million, of which the
harbour trust offered a third on condition that the new bridge let masted boats through.

According to the passage, why was the bridge closed, how many piles were sound, and what did the trust ask
for?"""

_REASONING_SEATS = """\
Five colleagues, Ada, Bo, Cem, Dana and Eli, sit in a row of five chairs. Ada sits next to Dana. Bo is at
one end. Cem is not next to Bo. Eli sits to the left of Cem, but not directly. Deduce every possible
seating step by step and say which of the clues you could leave out."""

_REASONING_KNAVES = """\
On an island everyone is a knight, who always tells the truth, or a knave, who always lies. P says: "Q and
I are not the same kind." Q says: "Exactly one of us three is a knave." R says nothing. Work through this
logic puzzle step by step: what must be true of P, Q and R?"""

_REASONING_MIGRATION = """\
We have to move a service with 40 million rows from one database to another, with at most two minutes of
downtime. Reads outnumber writes fifty to one; nobody may lose a write. Compare dual writes, change data
capture and a dump at night. State your assumptions, weigh the trade-offs, give the strongest
counterargument to your choice, and conclude with a plan."""

_ROLEPLAY_INNKEEPER = """\
You are the innkeeper of the last house before a mountain pass, gruff but kind, and you have seen many
travellers turn back. Stay in character. I come in at dusk, soaked, and ask for a guide over the pass
tonight."""

_ROLEPLAY_SHIP = """\
Let's roleplay. You play the part of the ship's computer of a salvage vessel, dry and slightly offended,
and I am the captain who has just ignored your third warning. Never break character and end each turn with
a reading from your sensors. Computer, why are the
lights red?"""

_ROLEPLAY_DETECTIVE = """\
Pretend to be a detective of the 1930s who questions me about a missing painting. One question at a time,
suspicious of everything I say, in character throughout. Begin as I sit down."""

_STEM_BATTERY = """\
Explain why a lithium-ion cell loses capacity faster at high temperature and when it is kept fully
charged. Name the chemical reactions at both electrodes, the mechanism by which the interphase layer
grows, and an experiment that would tell them apart."""

_STEM_ENZYME = """\
How do competitive and non-competitive inhibitors change the kinetics of an enzyme? Explain how the
apparent affinity and the maximal velocity of the reaction move, what happens at the level of the
proteins, and how one would see it on a plot of 1/v against 1/[S]."""

_STEM_ORBIT = """\
Explain why a satellite that is braked by the upper atmosphere speeds up. Relate kinetic and potential
energy in a circular orbit, and estimate the change of velocity when the orbit shrinks from 420 km to 380
km."""

_SUMMARIZATION_MEETING = """\
Summarize the following notes in three bullet points and list who has to do what by when.

Priya opened with the numbers of the quarter: sign-ups rose by eleven per cent, but a third of the new
accounts never uploaded a file. Tomas thinks the importer is to blame, as it fails without a message on
archives over 2 GB, and said he could have a fix behind a flag by the 14th. Lena pointed out that support
saw 140 tickets about it and offered to write a page of known limits this week. Nobody could say whether
the mobile clients are affected; Priya will ask the vendor. The price change was put off until the
importer is fixed. Tomas asked that the on-call rota be split, since two people carried it alone during
the holidays; it was agreed to try pairs from next month and to look at it again in March."""

_SUMMARIZATION_REEF = """\
Give me a summary of the text in two sentences, for readers of a local paper.

For eight years a group of divers has counted the fish on an artificial reef made of decommissioned tram
carriages. In the first two years numbers rose steeply, mostly of species that gather around any
structure. From the third year on the growth slowed, while the number of species went on rising, and since
the fifth year juveniles of four species have been found in the carriages, which suggests that the reef no
longer merely attracts fish but raises them. Corrosion is faster than was expected: two of the nine roofs
have fallen in, and the divers ask for a survey before the third goes, since the collapsed carriages
shelter fewer fish than open sand does."""

_SUMMARIZATION_LOG = """\
TL;DR of this incident log, at most 60 words, key points only:

09:02 alert: p99 latency of checkout above 4 s. 09:05 on-call acknowledges. 09:11 database connections at
their limit of 400. 09:14 a deploy of 08:55 found to have doubled the pool size of each worker. 09:19
rollback started. 09:26 rollback done, connections at 390, latency unchanged. 09:31 idle transactions left
by the killed workers found and ended by hand. 09:34 latency back at 180 ms. 09:50 all clear. Follow-ups:
cap the pools on the server side, alert at 80 per cent of the limit, make workers close their transactions
when they are stopped."""

_HUMANITIES_LEAGUE = """\
What held the cities of the Hanseatic League together for three centuries although it had no sovereign, no
standing army and no treaty that all had signed? Discuss the historical debate on its decline."""

_HUMANITIES_STOICS = """\
Compare the ethics of the Stoics with those of the Epicureans on the question of public life. Refer to at
least one author of each school and say what later philosophy took from them."""

_HUMANITIES_PRINT = """\
How did cheap printing change religious and political culture in Europe during the sixteenth century?
Weigh the view that print caused the Reformation against the view that the movement made the printers'
fortune."""

_WRITING_EMAIL = """\
Write a short e-mail to a landlord, friendly in tone but firm, about a radiator that has been cold for
nine days in spite of two calls. Ask for a date, and mention that a plumber of one's own is the next step."""

_WRITING_STORY = """\
Write a short story of about 400 words that begins with a letter delivered forty years late and ends
before it is opened. Keep to one room and two people, and let the weather do no work."""

_WRITING_BLOG = """\
Draft an opening paragraph and an outline for a blog post that persuades a sceptical team to write fewer,
longer commit messages. A tone that does not lecture, one anecdote, no lists in the opening."""

BUILTIN_PROMPTS: tuple[tuple[str, str], ...] = (
    ("coding", _CODING_LRU),
    ("coding", _CODING_SQL),
    ("coding", _CODING_REFACTOR),
    ("coding", _CODING_TESTS),
    ("humanities", _HUMANITIES_LEAGUE),
    ("humanities", _HUMANITIES_STOICS),
    ("humanities", _HUMANITIES_PRINT),
    ("math", _MATH_TANK),
    ("math", _MATH_INTEGRAL),
    ("math", _MATH_CHOOSE),
    ("multilingual", _MULTILINGUAL_TRANSLATE),
    ("multilingual", _MULTILINGUAL_FRENCH),
    ("multilingual", _MULTILINGUAL_CHINESE),
    ("qa", _QA_TIDES),
    ("qa", _QA_HTTP),
    ("qa", _QA_BREAD),
    ("qa", _QA_PLANET),
    ("rag", _RAG_LEAVE),
    ("rag", _RAG_ROUTER),
    ("rag", _RAG_BRIDGE),
    ("reasoning", _REASONING_SEATS),
    ("reasoning", _REASONING_KNAVES),
    ("reasoning", _REASONING_MIGRATION),
    ("roleplay", _ROLEPLAY_INNKEEPER),
    ("roleplay", _ROLEPLAY_SHIP),
    ("roleplay", _ROLEPLAY_DETECTIVE),
    ("stem", _STEM_BATTERY),
    ("stem", _STEM_ENZYME),
    ("stem", _STEM_ORBIT),
    ("summarization", _SUMMARIZATION_MEETING),
    ("summarization", _SUMMARIZATION_REEF),
    ("summarization", _SUMMARIZATION_LOG),
    ("writing", _WRITING_EMAIL),
    ("writing", _WRITING_STORY),
    ("writing", _WRITING_BLOG),
)
