"""Made data in the published formats of LoCoMo and LongMemEval: small talk, and few facts that are asked about."""

import json

SMALL = ["How was your day?", "Fine, thanks!", "The weather is nice.", "See you tomorrow", "I like tea a lot.", "Haha"]
THINGS = ["bicycle", "piano", "telescope", "kayak", "violin", "drone"]
TOWNS = ["Lisbon", "Oslo", "Kyoto", "Quito", "Dublin", "Prague"]


def locomo(conversations=6, sessions=3):
    """In each session, the third of six turns says what was bought where, a day before."""
    return [_sample(number, sessions) for number in range(conversations)]


def _sample(number, sessions):
    talk, qa = {"speaker_a": "Ann", "speaker_b": "Bo"}, []
    for session in range(1, sessions + 1):
        thing, town = THINGS[(number + session) % 6], TOWNS[(number * session) % 6]
        said = [f"{line} ({number}.{session})" for line in SMALL]
        said[2] = f"Yesterday I bought a {thing} in {town} number {number}"
        talk[f"session_{session}"] = [
            {"speaker": ("Ann", "Bo")[turn % 2], "dia_id": f"D{session}:{turn + 1}", "text": text}
            for turn, text in enumerate(said)
        ]
        talk[f"session_{session}_date_time"] = f"1:56 pm on {session} May, 2023"
        qa.append(
            {
                "question": f"What was bought in {town}?",
                "answer": f"a {thing}",
                "evidence": [f"D{session}:3"],
                "category": 4,
            }
        )
    qa.append({"question": "Who flew?", "adversarial_answer": "Bo", "evidence": ["D1:1"], "category": 5})
    return {"sample_id": f"conv-{number}", "conversation": talk, "qa": qa, "event_summary": {}}


def longmemeval(questions=10, sessions=6):
    """One session of each haystack has the answer; the small talk of the others is the same in several questions."""
    entries = []
    for number in range(questions):
        thing, town = THINGS[number % 6], TOWNS[(number * 5 + 1) % 6]
        haystack = [
            [{"role": "user", "content": SMALL[s % 6]}, {"role": "assistant", "content": f"Story {number % 3} of {s}"}]
            for s in range(sessions)
        ]
        place = number % sessions
        fact = f"I bought my {thing} in {town}, order {number}"
        haystack[place] = [{"role": "user", "content": fact, "has_answer": True}]
        entries.append(
            {
                "question_id": f"q{number}",
                "question_type": "single-session-user",
                "question": f"Where did I buy my {thing}?",
                "answer": town,
                "question_date": "2023/06/01 (Thu) 10:00",
                "haystack_sessions": haystack,
                "haystack_session_ids": [f"q{number}-s{s}" for s in range(sessions)],
                "haystack_dates": [f"2023/05/{s + 1:02} (Mon) 02:21" for s in range(sessions)],
                "answer_session_ids": [f"q{number}-s{place}"],
            }
        )
    return entries


def written(folder, data, name="data.json"):
    """The path of a file with this data."""
    path = folder / name
    path.write_text(json.dumps(data), encoding="utf-8")
    return path
