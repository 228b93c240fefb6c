import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from automem.memory.keys import KeyPart, Refused, key_parts, normal_key

XY = key_parts(["x:int", "y:int"])
PARCEL = key_parts(["parcel"])
MIXED = key_parts(["level:int", "what: text"])


def test_parts_are_text_unless_declared_int():
    assert key_parts(["level:int", "what: text"]) == (KeyPart("level", "int"), KeyPart("what", "text"))
    assert key_parts([]) == (KeyPart("key", "text"),)


@pytest.mark.parametrize("declared", [["x:float"], ["1x"], [""], ["x y"], ["x", "X"]])
def test_bad_declarations(declared):
    with pytest.raises(ValueError, match="key part"):
        key_parts(declared)


@pytest.mark.parametrize(
    "text",
    [
        "12,3",
        "12, 3",
        "12 3",
        "12;3",
        "(12, 3)",
        "[12,3]",
        "(x=12, y=3)",
        "x=12,y=3",
        "y=3, x=12",
        "X: 12 Y: 3",
        "X:12, Y:3.",
        "x 12 y 3",
        "'12,3'",
        "+12,03",
    ],
)
def test_one_place_has_one_key(text):
    assert normal_key(text, XY) == "12,3"


@pytest.mark.parametrize("text", ["-1,0", "(-1, 0)", "x=-1, y=0", "\N{MINUS SIGN}1,0", "-1 -0"])
def test_negative_numbers(text):
    assert normal_key(text, XY) == "-1,0"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "12",
        "1,2,3",
        "x=1",
        "x=1,x=2",
        "x=1,y=2,z=3",
        "x=1,y=2,x=3",
        "near x=1,y=2",
        "z=1,y=2",
        "x=1.5,y=2",
        "here",
        "x=,y=",
        "9" * 40 + ",1",
    ],
)
def test_wrong_parts_are_refused_with_the_form(text):
    with pytest.raises(Refused, match="a key is x,y, for example 3,3"):
        normal_key(text, XY)


@pytest.mark.parametrize(
    "text",
    [
        "red box",
        "Red  Box",
        "the red box",
        "The a red box.",
        '"A red box"',
        "parcel: the 'red box'",
        "(red box)",
    ],
)
def test_one_name_has_one_key(text):
    assert normal_key(text, PARCEL) == "red box"


@pytest.mark.parametrize(("text", "key"), [("the", "the"), ("@", "@"), ("<", "<"), ("12:30", "12 30"), ("C++", "c++")])
def test_text_keys_that_look_odd(text, key):
    assert normal_key(text, PARCEL) == key


@pytest.mark.parametrize("text", ["1,fountain", "level=1, what=the Fountain", "what: fountain; level: 1", "1 Fountain"])
def test_parts_of_both_types(text):
    assert normal_key(text, MIXED) == "1,fountain"


@pytest.mark.parametrize("text", ["a|b", "a\nb", "x" * 201])
def test_keys_that_would_break_a_row(text):
    with pytest.raises(Refused):
        normal_key(text, PARCEL)


@settings(deadline=None)
@given(
    st.text("xylevwhatd=:,;. ()'-12\tßİ@|\n", max_size=20) | st.text(max_size=20),
    st.sampled_from([XY, PARCEL, MIXED]),
)
def test_a_normal_key_is_its_own_normal_form(text, parts):
    try:
        key = normal_key(text, parts)
    except Refused as refusal:
        assert str(refusal)
        return
    assert normal_key(key, parts) == key
    assert "|" not in key
    assert key == key.strip()
    assert key
