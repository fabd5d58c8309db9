"""Generative agents: five small questions about people of a simulated village."""

import lmc

POIGNANCY = (
    "On the scale of 1 to 10, where 1 is purely mundane (e.g., brushing teeth, making bed) and "
    "10 is extremely poignant (e.g., a break up, college acceptance), rate the likely poignancy "
    "of the following event for"
)
TRIPLE = (
    "Task: Turn the input into (subject, predicate, object).\n"
    "Input: Sam Johnson is eating breakfast.\nOutput: (Dolores Murphy, eat, breakfast)\n---\n"
    "Input: Joon Park is brewing coffee.\nOutput: (Joon Park, brew, coffee)\n---\n"
    "Input: Jane Cook is sleeping.\nOutput: (Jane Cook, is, sleep)\n---\n"
    "Input: Michael Bernstein is writing email on a computer.\n"
    "Output: (Michael Bernstein, write, email)\n---\n"
    "Input: Percy Liang is teaching students in a classroom.\n"
    "Output: (Percy Liang, teach, students)\n---\n"
    "Input: Merrie Morris is running on a treadmill.\n"
    "Output: (Merrie Morris, run, treadmill)\n---\n"
)
SECTOR = (
    "Task -- choose an appropriate area from the area options for a task at hand.\n"
    "Sam Kim lives in {Sam Kim's house} that has Sam Kim's room, bathroom, kitchen.\n"
    "Sam Kim is currently in {Sam Kim's house} that has Sam Kim's room, bathroom, kitchen.\n"
    "Area options: {Sam Kim's house, The Rose and Crown Pub, Hobbs Cafe, Oak Hill College, "
    "Johnson Park, Harvey Oak Supply Store, The Willows Market and Pharmacy}.\n"
    "* Stay in the current area if the activity can be done there. Only go out if the activity "
    'needs to take place in another place.\n* Must be one of the "Area options," verbatim.\n'
    "For taking a walk, Sam Kim should go to the following area: {Johnson Park}\n---\n"
    "Jane Anderson lives in {Oak Hill College Student Dormatory} that has Jane Anderson's room.\n"
    "Jane Anderson is currently in {Oak Hill College} that has a classroom, library.\n"
    "Area options: {Oak Hill College Student Dormatory, The Rose and Crown Pub, Hobbs Cafe, Oak "
    "Hill College, Johnson Park, Harvey Oak Supply Store, The Willows Market and Pharmacy}.\n"
    "For eating dinner, Jane Anderson should go to the following area: {Hobbs Cafe}\n---\n"
)
OBJECT = (
    "Jane Anderson is in kitchen in Jane Anderson's house.\n"
    "Jane Anderson is going to Jane Anderson's house that has the following areas: {kitchen, "
    "bedroom, bathroom}\nStay in the current area if the activity can be done there. Never go "
    "into other people's rooms unless necessary.\n"
    "For cooking, Jane Anderson should go to the following area in Jane Anderson's house:\n"
    "Answer: {kitchen}\n---\n"
    "Tom Watson is in common room in Tom Watson's apartment.\n"
    "Tom Watson is going to Hobbs Cafe that has the following areas: {cafe}\n"
    "Stay in the current area if the activity can be done there. Never go into other people's "
    "rooms unless necessary.\n"
    "For getting coffee, Tom Watson should go to the following area in Hobbs Cafe:\n"
    "Answer: {cafe}\n---\n"
)


@lmc.function
def poignancy_event(s, persona_name, persona_iss, event):
    """Rate how much an event matters to somebody."""
    s += "Here is a brief description of " + persona_name + ".\n" + persona_iss + "\n"
    s += POIGNANCY + " " + persona_name + ".\n\nEvent: " + event
    s += "\nRate (return a number between 1 to 10):"
    s += lmc.gen("answer", max_tokens=2, temperature=0)


@lmc.function
def generate_event_triple(s, persona_name, action):
    """Turn what somebody does into subject, predicate and object."""
    s += TRIPLE + "Input: " + persona_name + " is " + action + ".\nOutput: (" + persona_name + ","
    s += lmc.gen("answer", max_tokens=20, temperature=0, stop=")")


@lmc.function
def generate_pronunciatio(s, action):
    """Say an action in emojis."""
    s += "Convert an action description to an emoji (important: use two or less emojis).\n"
    s += "Action description: " + action + ".\nEmoji:"
    s += lmc.gen("answer", max_tokens=6, temperature=0)


@lmc.function
def action_location_sector(
    s, persona_name, living_sector, living_sector_areas, current_sector, current_sector_areas,
    daily_plan, sector_options, current_action, next_action,
):  # fmt: skip
    """Choose the place where somebody goes."""
    s += SECTOR + persona_name + " lives in {" + living_sector + "} that has "
    s += living_sector_areas + ".\n" + persona_name + " is currently in {" + current_sector
    s += "} that has " + current_sector_areas + ". " + daily_plan + ".\n"
    s += "Area options: {" + sector_options + "}.\n"
    s += persona_name + " is " + current_action + ". For " + next_action + ", " + persona_name
    s += " should go to the following area: {"
    s += lmc.gen("answer", max_tokens=10, temperature=0, stop="}")


@lmc.function
def action_location_object(
    s, persona_name, target_sector, target_sector_areas, current_action, next_action
):
    """Choose the area within a place."""
    s += OBJECT + persona_name + " is going to " + target_sector
    s += " that has the following areas: {" + target_sector_areas + "}\n"
    s += persona_name + " is " + current_action + ". For " + next_action + ", " + persona_name
    s += " should go to the following area in " + target_sector + ":\nAnswer: {"
    s += lmc.gen("answer", max_tokens=5, temperature=0, stop="}")


@lmc.function
def agent_call(s, kind: str, given: dict):
    """One call of the trace, by its kind; returns the answer."""
    if kind == "poignancy_event":
        answer = poignancy_event(given["persona_name"], given["persona_iss"], given["event"])
    elif kind == "generate_event_triple":
        answer = generate_event_triple(given["persona_name"], given["action"])
    elif kind == "generate_pronunciatio":
        answer = generate_pronunciatio(given["action"])
    elif kind == "action_location_sector":
        answer = action_location_sector(
            given["persona_name"], given["living_sector"], given["living_sector_areas"],
            given["current_sector"], given["current_sector_areas"], given["daily_plan"],
            given["sector_options"], given["current_action"], given["next_action"],
        )  # fmt: skip
    else:
        answer = action_location_object(
            given["persona_name"], given["target_sector"], given["target_sector_areas"],
            given["current_action"], given["next_action"],
        )  # fmt: skip
    return answer["answer"]
