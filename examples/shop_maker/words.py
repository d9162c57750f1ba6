"""Made-up text for the shop: plain, awkward, and long. Everything comes from the random generator that is passed in."""

from __future__ import annotations

from random import Random

_GIVEN = (
    "Ada",
    "Ben",
    "Chloé",
    "Đặng",
    "Emre",
    "Fatima",
    "Günther",
    "Hana",
    "Ilse",
    "João",
    "Kwame",
    "李",
    "Maja",
    "Ñuria",
)
_FAMILY = ("Almeida", "Brandt", "Çelik", "Dubois", "Eriksen", "Fischer", "García", "小明", "Ivanov", "Jansen", "O'Neil")
_THINGS = ("lamp", "kettle", "hammock", "puzzle", "spade", "notebook", "tent", "pan", "kite", "atlas", "mug", "bench")
_LOOKS = ("oak", "blue", "folding", "small", "brass", "striped", "quiet", "heavy", "round", "second-hand")
_CITIES = ("Köln", "Orléans", "Málaga", "Århus", "São Paulo", "Gent", "Zürich", "Reykjavík")
_CITIES_LOCAL = ("北京", "上海市", "广州", "深圳", "成都", "重庆")
_STREETS = ("Lindenweg", "Rue de l'Église", "Calle Ñandú", "Main St.", "Straße des 17. Juni", "学院路")

ODD = (
    "", " ", "  leading and trailing  ", "NULL", "null", "\\N", "0", "it's \"quoted\"", "back\\slash", "tab\tand\nnewline",
    "carriage\r\nreturn", "nul\x00inside", "😀 beyond the BMP 🛒𝒳", "e\u0301 combining", "ﷺ right to left", "a,b;c|d",
    "percent % under_score", "{\"not\": json", "\u200bzero width", "--comment /* */", "ünïcödé", "\ufeffmark",
)  # fmt: skip
"""Texts that trip readers up."""

_SENTENCES = (
    "The goods remain the property of the seller until they have been paid for in full. ",
    "Deliveries are made on working days between eight and six, unless agreed otherwise in writing. ",
    "Für Schäden, die durch unsachgemäßen Gebrauch entstehen, wird keine Haftung übernommen. ",
    "Les réclamations doivent être adressées par écrit dans un délai de quatorze jours. ",
    "本条款自发布之日起生效, 商家保留最终解释权。",
    "Bitte bewahren Sie die Verpackung auf, bis Sie das Gerät geprüft haben. ",
    "A spare part that is no longer made may be replaced by one of equal quality 🔧. ",
    "The manual describes assembly, first use, cleaning, storage and disposal. \n",
    "Do not expose the article to temperatures above 60 °C or below −20 °C. ",
    "Guarantee claims need the receipt and the serial number on the underside.\r\n",
)


def person(random: Random) -> str:
    """Return a name."""
    return f"{random.choice(_GIVEN)} {random.choice(_FAMILY)}"


def thing(random: Random) -> str:
    """Return an article's title."""
    return f"{random.choice(_LOOKS)} {random.choice(_LOOKS)} {random.choice(_THINGS)}"


def street(random: Random) -> str:
    """Return a street with a number."""
    return f"{random.choice(_STREETS)} {random.randint(1, 240)}"


def city(random: Random) -> str:
    """Return a city that latin1 can write."""
    return random.choice(_CITIES)


def city_local(random: Random) -> str:
    """Return a city that gbk can write."""
    return random.choice(_CITIES_LOCAL)


def remark(random: Random) -> str | None:
    """Return a customer's note: mostly none, sometimes odd."""
    roll = random.random()
    if roll < 0.6:
        return None
    return random.choice(ODD) if roll < 0.75 else "".join(random.choices(_SENTENCES, k=random.randint(1, 2)))


def long_text(random: Random, size: int) -> str:
    """Return about ``size`` characters of contract prose, which repeats itself and so compresses well."""
    parts: list[str] = []
    length = 0
    while length < size:
        paragraph = f"§ {len(parts) + 1} " + "".join(random.choices(_SENTENCES, k=6)) * random.randint(1, 4)
        parts.append(paragraph)
        length += len(paragraph)
    return "".join(parts)


def some_bytes(random: Random, most: int) -> bytes:
    """Return up to ``most`` random bytes, often with zeros at the end, which packed columns may lose."""
    data = random.randbytes(random.randint(0, most))
    return data + b"\0" * min(2, most - len(data)) if random.random() < 0.3 else data
