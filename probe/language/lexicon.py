"""Words of which sentences are made: a few everyday ones, with the forms that a paradigm needs."""

from __future__ import annotations

# (singular, plural)
PEOPLE = (
    ("teacher", "teachers"), ("doctor", "doctors"), ("student", "students"), ("farmer", "farmers"),
    ("singer", "singers"), ("lawyer", "lawyers"), ("painter", "painters"), ("driver", "drivers"),
    ("nurse", "nurses"), ("pilot", "pilots"), ("dancer", "dancers"), ("soldier", "soldiers"),
    ("writer", "writers"), ("child", "children"), ("neighbor", "neighbors"), ("guest", "guests"),
)  # fmt: skip
THINGS = (
    ("chair", "chairs"), ("book", "books"), ("lamp", "lamps"), ("shirt", "shirts"), ("bottle", "bottles"),
    ("table", "tables"), ("letter", "letters"), ("ticket", "tickets"), ("coat", "coats"), ("bicycle", "bicycles"),
    ("basket", "baskets"), ("knife", "knives"), ("box", "boxes"), ("picture", "pictures"),
)  # fmt: skip
MEN = (
    ("man", "men"), ("boy", "boys"), ("king", "kings"), ("prince", "princes"), ("father", "fathers"),
    ("uncle", "uncles"), ("brother", "brothers"), ("husband", "husbands"), ("nephew", "nephews"),
)  # fmt: skip
WOMEN = (
    ("woman", "women"), ("girl", "girls"), ("queen", "queens"), ("princess", "princesses"), ("mother", "mothers"),
    ("aunt", "aunts"), ("sister", "sisters"), ("wife", "wives"), ("niece", "nieces"),
)  # fmt: skip
MEN_BY_NAME = ("John", "Peter", "David", "Thomas", "Robert", "George", "Paul", "James")
WOMEN_BY_NAME = ("Mary", "Anna", "Susan", "Emma", "Laura", "Helen", "Jane", "Alice")

# (third person singular, plural) of the present
DOINGS = (
    ("smiles", "smile"), ("sleeps", "sleep"), ("laughs", "laugh"), ("sings", "sing"), ("works", "work"),
    ("waits", "wait"), ("walks", "walk"), ("complains", "complain"), ("listens", "listen"), ("dances", "dance"),
)  # fmt: skip
FEELINGS = (
    ("admires", "admire"), ("knows", "know"), ("likes", "like"), ("helps", "help"), ("visits", "visit"),
    ("remembers", "remember"),
)  # fmt: skip
NEVER_WITH_OBJECT = ("smiled", "slept", "arrived", "sneezed", "laughed", "vanished", "coughed", "fainted", "yawned")
ALWAYS_WITH_OBJECT = ("found", "bought", "fixed", "carried", "brought", "used", "received", "borrowed", "took")
TO_ONESELF = ("admired", "hurt", "blamed", "praised", "introduced", "defended", "described", "protected")
OF_KNOWLEDGE = ("knows", "remembers", "noticed", "discovered", "learned", "understands")
# (past, participle, objects)
IRREGULAR = (
    ("broke", "broken", ("cup", "window")), ("stole", "stolen", ("car", "money")),
    ("wrote", "written", ("letter", "book")), ("ate", "eaten", ("apple", "cake")),
    ("took", "taken", ("train", "picture")), ("forgot", "forgotten", ("name", "key")),
    ("hid", "hidden", ("ring", "money")), ("chose", "chosen", ("color", "house")),
    ("tore", "torn", ("shirt", "paper")), ("drove", "driven", ("truck", "bus")),
    ("wore", "worn", ("hat", "coat")), ("threw", "thrown", ("ball", "stone")),
    ("drew", "drawn", ("map", "line")), ("gave", "given", ("answer", "speech")),
)  # fmt: skip

NEAR = ("near", "behind", "beside", "opposite")
WHEN = ("every day", "at night", "in the morning", "after lunch", "on Sundays")
ONCE = ("yesterday", "last week", "this morning", "after lunch", "again")
WHERE = ("in the garden", "in the kitchen", "at the station", "on the bridge", "behind the house", "near the door")
MANNER = ("quickly", "slowly", "quietly", "carefully", "secretly", "gladly")
