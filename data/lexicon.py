"""The words of the demo corpus: plain tables, and the two small types that give their columns a name.

Knows nothing about how words are put together (grammar.py) or drawn (captions.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

# Kind: German, gender, German plural, English. Gender w is masculine and weak: outside the nominative it takes the
# plural's form (der Junge, den Jungen). Plural "-" marks a mass noun (kalte Milch, cold milk).
NOUNS = {
    "people": "Mann m Männer man, Frau f Frauen woman, Junge w Jungen boy, Mädchen n Mädchen girl, "
    "Kind n Kinder child, Großmutter f Großmütter grandmother, Großvater m Großväter grandfather, "
    "Ärztin f Ärztinnen doctor, Köchin f Köchinnen cook, Nachbarin f Nachbarinnen neighbour, "
    "Tänzerin f Tänzerinnen dancer, Bauer w Bauern farmer, "
    "Polizist w Polizisten police officer, Tourist w Touristen tourist, Feuerwehrmann m Feuerwehrleute firefighter, "
    "Straßenmusiker m Straßenmusiker street musician, Fußballspieler m Fußballspieler football player",
    "pets": "Hund m Hunde dog, Katze f Katzen cat, Affe w Affen monkey, Hase w Hasen rabbit, "
    "Papagei m Papageien parrot",
    "farm": "Pferd n Pferde horse, Kuh f Kühe cow, Schaf n Schafe sheep, Esel m Esel donkey, Ziege f Ziegen goat, "
    "Ente f Enten duck, Elefant w Elefanten elephant",
    "clothes": "Jacke f Jacken jacket, Mantel m Mäntel coat, Kleid n Kleider dress, Hemd n Hemden shirt, "
    "Wintermantel m Wintermäntel winter coat, Pullover m Pullover sweater, "
    "Hose f Hosen trousers, Schal m Schals scarf, Regenjacke f Regenjacken rain jacket",
    "headwear": "Hut m Hüte hat, Mütze f Mützen cap, Strohhut m Strohhüte straw hat, "
    "Fahrradhelm m Fahrradhelme bicycle helmet, Sonnenbrille f Sonnenbrillen sunglasses",
    "food": "Apfel m Äpfel apple, Banane f Bananen banana, Orange f Orangen orange, Brötchen n Brötchen roll, "
    "Pfannkuchen m Pfannkuchen pancake, Apfelkuchen m Apfelkuchen apple cake",
    "drink": "Wasser n - water, Milch f - milk, Tee m - tea, Kaffee m - coffee, Orangensaft m - orange juice",
    "reading": "Buch n Bücher book, Zeitung f Zeitungen newspaper, Brief m Briefe letter, Bild n Bilder picture",
    "flowers": "Blume f Blumen flower, Rose f Rosen rose, Sonnenblume f Sonnenblumen sunflower",
    "toys": "Ball m Bälle ball, Puppe f Puppen doll, Luftballon m Luftballons balloon, "
    "Spielzeugauto n Spielzeugautos toy car",
    "bags": "Koffer m Koffer suitcase, Kiste f Kisten box, Korb m Körbe basket, Rucksack m Rucksäcke backpack, "
    "Wasserflasche f Wasserflaschen water bottle, Regenschirm m Regenschirme umbrella",
    "vehicles": "Auto n Autos car, Motorrad n Motorräder motorcycle, Lastwagen m Lastwagen truck, "
    "Fahrrad n Fahrräder bicycle",
    "transit": "Bus m Busse bus, Zug m Züge train, Schulbus m Schulbusse school bus",
    "furniture": "Bank f Bänke bench, Holzbank f Holzbänke wooden bench, Stuhl m Stühle chair, Sofa n Sofas sofa, "
    "Teppich m Teppiche carpet, Küchentisch m Küchentische kitchen table",
    "rooms": "Küche f Küchen kitchen, Zimmer n Zimmer room, Zelt n Zelte tent",
    "buildings": "Haus n Häuser house, Kirche f Kirchen church, Schule f Schulen school, "
    "Bahnhof m Bahnhöfe train station",
    "outdoors": "Park m Parks park, Garten m Gärten garden, Wald m Wälder forest, Wiese f Wiesen meadow, "
    "Straße f Straßen street, Feld n Felder field, Markt m Märkte market, Spielplatz m Spielplätze playground, "
    "Strand m Strände beach, Fluss m Flüsse river, See m Seen lake, Baum m Bäume tree, Brunnen m Brunnen fountain, "
    "Mauer f Mauern wall, Brücke f Brücken bridge, Bushaltestelle f Bushaltestellen bus stop",
    "openings": "Fenster n Fenster window, Tür f Türen door",
    "hair": "Haar n Haare hair",
}
PLURAL_ONLY = {"trousers", "sunglasses"}  # eine Hose, but trousers: no article
IRREGULAR = {"man": "men", "woman": "women", "child": "children", "sheep": "sheep", "scarf": "scarves", "hair": "hair"}
IRREGULAR |= {word: word for word in PLURAL_ONLY}

# German and English, then the kinds or single nouns that the adjective goes with in this sense.
ADJECTIVES = {
    "rot red": "clothes headwear toys bags vehicles transit flowers hair",
    "blau blue": "clothes headwear toys bags vehicles transit",
    "grün green": "clothes headwear toys bags vehicles transit",
    "gelb yellow": "clothes headwear toys bags vehicles transit flowers",
    "schwarz black": "clothes headwear bags vehicles pets farm hair",
    "weiß white": "clothes headwear bags vehicles pets farm flowers",
    "braun brown": "clothes bags pets farm hair",
    "lila purple": "clothes headwear toys bags",
    "neu new": "clothes headwear toys bags vehicles reading",
    "alt old": "Mann Frau Ärztin Köchin Nachbarin Bauer Polizist Tourist Feuerwehrmann Straßenmusiker pets farm "
    "clothes bags vehicles reading buildings furniture Brücke Mauer",
    "jung young": "people pets farm",
    "klein little": "people pets farm",
    "klein small": "food toys bags vehicles rooms buildings furniture Garten Park Wald See",
    "groß tall": "people",
    "groß big": "pets farm food toys bags vehicles rooms buildings furniture Garten Park Wald See",
    "müde tired": "people pets farm",
    "hungrig hungry": "people pets farm",
    "glücklich happy": "people",
    "freundlich friendly": "people pets farm",
    "nass wet": "clothes pets farm Straße Wiese Bank",
    "schmutzig dirty": "clothes bags vehicles pets",
    "schwer heavy": "Koffer Kiste Korb Rucksack",
    "kaputt broken": "vehicles toys Regenschirm Stuhl",
    "süß sweet": "food",
    "frisch fresh": "food Milch Orangensaft",
    "heiß hot": "Milch Tee Kaffee",
    "kalt cold": "drink",
    "schön beautiful": "flowers Kleid Bild Strand Wald Park Garten",
    "lang long": "hair Brücke Straße Kleid Mantel",
    "blond blond": "hair",
    "dunkel dark": "Wald Zimmer Straße Küche",
    "hoch high": "Mauer Brücke",
}
STEMS = {"müde": "müd", "dunkel": "dunkl", "hoch": "hoh"}
INDECLINABLE = {"lila"}


class Place(NamedTuple):
    """A preposition with the nouns it takes, and its English for where (dative) and where to ("": not used so)."""

    preposition: str
    where: str
    where_to: str
    nouns: str


PLACES = {
    "surface": Place("auf", "on", "onto", "furniture Mauer Brücke"),
    "ground": Place("auf", "in", "into", "Wiese Straße Feld"),
    "site": Place("auf", "at", "to", "Markt Spielplatz"),
    "room": Place("in", "in", "into", "rooms Park Garten Wald"),
    "water": Place("in", "in", "into", "See Fluss"),
    "beach": Place("an", "on", "to", "Strand"),
    "shore": Place("an", "by", "to", "See Fluss"),
    "stop": Place("an", "at", "to", "Bahnhof Bushaltestelle"),
    "opening": Place("an", "at", "to", "openings"),
    "front": Place("vor", "in front of", "", "buildings Tür Brunnen"),
    "behind": Place("hinter", "behind", "behind", "Haus Kirche Baum Mauer"),
    "beside": Place("neben", "next to", "", "Baum Brunnen Bank Haus"),
    "below": Place("unter", "under", "under", "Baum Brücke Küchentisch Bank"),
    "over": Place("über", "", "across", "Straße Brücke Wiese Feld"),
    "through": Place("durch", "", "through", "Park Garten Wald"),
    "to": Place("zu", "", "to", "buildings Brunnen Bushaltestelle"),
    "out": Place("aus", "", "out of", "Haus Kirche Schule Zelt Küche"),
}
ANYWHERE = "surface ground site room beach shore stop opening front behind beside below"
OPEN_AIR = {"outdoors", "buildings"}  # where farm animals and vehicles may be
CONTRACTIONS = {"in dem": "im", "in das": "ins", "an dem": "am", "an das": "ans", "zu dem": "zum", "zu der": "zur"}


@dataclass(frozen=True)
class Verb:
    """One sense of a verb: third persons (the plural is the infinitive too) ↔ base and -ing form with what follows."""

    de: str
    en: str
    subjects: str
    objects: str = ""  # "[preposition] case kinds", joined by "+"
    place: str = "maybe"  # "", "maybe", or "at GROUPS" (where) or "to GROUPS" (where to), needed
    particle: str = ""  # zieht ... an
    fixed: str = ""  # fährt ... Fahrrad
    reflexive: bool = False


# Who does something, how often in a hundred captions.
SUBJECTS = {"people": 72, "pets": 14, "farm": 9, "vehicles": 3, "transit": 2}
THINGS = "food reading flowers toys bags clothes headwear"
OUTFITS = "Jacke Mantel Hemd Pullover Wintermantel Hose Schal Regenjacke"
WEARABLE = "acc clothes headwear"
VERBS = (
    Verb("lacht lachen", "laugh laughing", "people"),
    Verb("tanzt tanzen", "dance dancing", "people"),
    Verb("singt singen", "sing singing", "people"),
    Verb("arbeitet arbeiten", "work working", "people"),
    Verb("spielt spielen", "play playing", "people pets"),
    Verb("schläft schlafen", "sleep sleeping", "people pets farm"),
    Verb("sitzt sitzen", "sit sitting", "people pets", place=f"at {ANYWHERE}"),
    Verb("steht stehen", "stand standing", "people pets farm", place=f"at {ANYWHERE}"),
    Verb("liegt liegen", "lie lying", "people pets farm", place="at surface ground room beach shore below"),
    Verb("schwimmt schwimmen", "swim swimming", "people pets farm", place="at water"),
    Verb("steht stehen", "stand standing", "vehicles", place="at front behind beside ground"),
    Verb("springt springen", "jump jumping", "people pets", place="at surface"),
    Verb("springt springen", "jump jumping", "people pets", place="to surface water"),
    Verb("klettert klettern", "climb climbing", "people pets", place="to surface"),
    Verb("rennt rennen", "run running", "people pets farm", place="at ground room beach"),
    Verb("rennt rennen", "run running", "people pets farm", place="to ground room behind below beach over through out"),
    Verb("geht gehen", "walk walking", "people pets farm", place="to over through to site shore"),
    Verb("kommt kommen", "come coming", "people pets", place="to out"),
    Verb("fährt fahren", "drive driving", "vehicles", place="to over"),
    Verb("fährt fahren", "cycle cycling", "people", fixed="Fahrrad"),
    Verb("spielt spielen", "play playing football", "people", fixed="Fußball"),
    Verb("spielt spielen", "play playing the guitar", "people", fixed="Gitarre"),
    Verb("hört hören", "listen listening to music", "people", fixed="Musik"),
    Verb("geht gehen", "go going for a walk", "people", fixed="spazieren"),
    Verb("kauft kaufen", "shop shopping", "people", place="at site", particle="ein"),
    Verb("kommt kommen", "arrive arriving", "people transit", place="at stop", particle="an"),
    Verb("isst essen", "eat eating", "people", "acc food"),
    Verb("frisst fressen", "eat eating", "pets farm", "acc food"),
    Verb("trinkt trinken", "drink drinking", "people", "acc drink"),
    Verb("liest lesen", "read reading", "people", "acc Buch Zeitung Brief"),
    Verb("trägt tragen", "wear wearing", "people", WEARABLE),
    Verb("trägt tragen", "carry carrying", "people", "acc bags toys"),
    Verb("hält halten", "hold holding", "people", "acc toys flowers reading bags"),
    Verb("wirft werfen", "throw throwing", "people", "acc Ball"),
    Verb("sucht suchen", "look looking for", "people", f"acc pets {THINGS}"),
    Verb("kauft kaufen", "buy buying", "people", f"acc vehicles {THINGS}", place=""),
    Verb("wäscht waschen", "wash washing", "people", "acc vehicles clothes"),
    Verb("repariert reparieren", "repair repairing", "people", "acc vehicles furniture"),
    Verb("schiebt schieben", "push pushing", "people", "acc vehicles"),
    Verb("zieht ziehen", "pull pulling", "people farm", "acc Koffer Kiste Auto"),
    Verb("fotografiert fotografieren", "photograph photographing", "people", "acc people pets farm flowers buildings"),
    Verb("füttert füttern", "feed feeding", "people", "acc pets farm"),
    Verb("jagt jagen", "chase chasing", "pets", "acc pets Ball"),
    Verb("legt legen", "put putting", "people", "acc reading toys", place="to surface below"),
    Verb("zieht ziehen", "put putting on", "people", "acc clothes", particle="an"),
    Verb("zieht ziehen", "take taking off", "people", "acc Jacke Mantel Regenjacke Wintermantel", particle="aus"),
    Verb("setzt setzen", "put putting on", "people", "acc headwear", particle="auf"),
    Verb("nimmt nehmen", "take taking off", "people", "acc headwear", particle="ab"),
    Verb("probiert probieren", "try trying on", "people", WEARABLE, particle="an"),
    Verb("hebt heben", "pick picking up", "people", f"acc {THINGS}", particle="auf"),
    Verb("schaut schauen", "look looking at", "people", "acc people pets farm reading buildings", particle="an"),
    Verb("ruft rufen", "call calling", "people", "acc people", particle="an"),
    Verb("hängt hängen", "hang hanging up", "people", "acc Bild clothes", particle="auf"),
    Verb("wirft werfen", "throw throwing away", "people", "acc toys reading food", particle="weg"),
    Verb("macht machen", "open opening", "people", "acc openings Koffer Kiste Brief", place="", particle="auf"),
    Verb("räumt räumen", "tidy tidying up", "people", "acc rooms", place="", particle="auf"),
    Verb("hilft helfen", "help helping", "people", "dat people"),
    Verb("folgt folgen", "follow following", "people pets", "dat people pets farm"),
    Verb("hört hören", "listen listening to", "people", "dat people", particle="zu"),
    Verb("gibt geben", "give giving", "people", "dat people + acc food flowers toys", place=""),
    Verb("zeigt zeigen", "show showing", "people", "dat people + acc reading toys", place=""),
    Verb("wartet warten", "wait waiting for", "people", "auf acc transit people"),
    Verb("denkt denken", "think thinking of", "people", "an acc people pets"),
    Verb("spricht sprechen", "talk talking to", "people", "mit dat people pets"),
    Verb("spielt spielen", "play playing with", "people pets", "mit dat toys pets"),
    Verb("lacht lachen", "laugh laughing at", "people", "über acc people pets"),
    Verb("zeigt zeigen", "point pointing at", "people", "auf acc farm vehicles buildings"),
    Verb("träumt träumen", "dream dreaming of", "people", "von dat people vehicles food"),
    Verb("freut freuen", "look looking forward to", "people", "auf acc food", reflexive=True),
    Verb("kümmert kümmern", "take taking care of", "people", "um acc people pets farm", reflexive=True),
    Verb("steigt steigen", "get getting on", "people", "in acc transit", place="", particle="ein"),
    Verb("steigt steigen", "get getting off", "people", "aus dat transit", place="", particle="aus"),
)
LYING = Verb("liegt liegen", "lie lying", "reading toys food flowers", place="at surface ground below")
STANDING = Verb("steht stehen", "stand standing", "vehicles bags furniture", place="at front behind beside room")
TO_MOVE = {"walk walking", "run running", "climb climbing"}
TO_SEEK = {"look looking for", "wait waiting for", "think thinking of", "look looking forward to", "dream dreaming of"}

# German singular and plural form ↔ English singular and plural form, with what follows both.
WISHES = {"möchte möchten": "wants want to", "muss müssen": "has have to"}
MODALS = WISHES | {"kann können": "can can", "darf dürfen": "is are allowed to"}
THOUGHTS = {"sieht sehen": "sees see", "sagt sagen": "says say", "weiß wissen": "knows know"}
THOUGHTS |= {"glaubt glauben": "believes believe", "hofft hoffen": "hopes hope"}

MOODS = {
    "müde": "tired",
    "hungrig": "hungry",
    "durstig": "thirsty",
    "glücklich": "happy",
    "traurig": "sad",
    "nass": "wet",
}
WEATHER = {"es regnet": "it is raining", "es schneit": "it is snowing", "die Sonne scheint": "the sun is shining"}
TIMES = {
    "heute": "today",
    "am Morgen": "in the morning",
    "am Nachmittag": "in the afternoon",
    "am Abend": "in the evening",
    "nachts": "at night",
    "am Sonntag": "on Sunday",
    "am Wochenende": "at the weekend",
    "im Sommer": "in summer",
    "im Winter": "in winter",
}
PACES = {"langsam": "slowly", "schnell": "quickly"}
