"""The house that the messages describe: names, kinds, what is left out, what is ambiguous."""

from __future__ import annotations

import json

import pytest
from zwave_house import HomeError, House


def house_of(*paths: str) -> House:
    """A house with a switch at each path."""
    house = House()
    for path in paths:
        house.receive(f"{path}/37/0/currentValue", b'{"value": false}')
    return house


def give_nodes(house: House, *nodes: object) -> None:
    house.receive("_CLIENTS/ZWAVE_GATEWAY-x/api/getNodes", json.dumps({"success": True, "result": nodes}).encode())


@pytest.mark.parametrize("name", ["Switch One", "switch one", "SWITCHONE", " switch_one ", "Switch-One", "switch 1"])
def test_a_name_is_the_same_without_case_spaces_and_signs(name: str) -> None:
    assert house_of("Switch_One", "Switch_Two").find(name).path == "Switch_One"


def test_the_whole_name_must_fit() -> None:
    house = house_of("Kitchen/Lamp")
    with pytest.raises(HomeError, match=r"no device called 'Lam'\. Did you mean: Lamp"):
        house.find("Lam")
    with pytest.raises(HomeError, match="no device called 'Lamp One'"):
        house.find("Lamp One")


def test_of_two_with_the_same_name_none_is_guessed() -> None:
    house = house_of("Kitchen/Lamp", "Bedroom/Lamp", "Lamp_Two")
    with pytest.raises(HomeError, match=r"Several devices are called 'lamp': Lamp \(Bedroom\), Lamp \(Kitchen\)"):
        house.find("lamp")
    for name in ("kitchen lamp", "Lamp (Kitchen)", "Kitchen/Lamp"):
        assert house.find(name).path == "Kitchen/Lamp"


def test_number_words_do_not_make_a_guess() -> None:
    with pytest.raises(HomeError, match="Several devices"):
        house_of("Switch_1", "Switch_One").find("switch one")


def test_without_a_similar_name_all_are_told() -> None:
    with pytest.raises(HomeError, match=r"no device called 'xyz'\. Known devices: Fan, Lamp"):
        house_of("Lamp", "Fan").find("xyz")


def test_an_empty_name_and_an_empty_house_find_nothing() -> None:
    with pytest.raises(HomeError, match="no device called '!'"):
        house_of("Lamp").find("!")
    with pytest.raises(HomeError, match="No Z-Wave device is known"):
        House().find("Lamp")


def test_nodes_without_names_get_them_from_the_list_of_nodes() -> None:
    house = house_of("5", "6")
    give_nodes(
        house,
        {"id": 1, "isControllerNode": True},
        {"id": 5, "name": "Café: Lamp", "loc": "Kitchen"},
        {"id": 6, "name": "Fan"},
    )
    assert [device.title for device in house.devices()] == ["Café: Lamp (Kitchen)", "Fan"]
    assert house.find("café lamp").path == "5"


def test_the_list_of_nodes_may_come_first_and_may_be_nonsense() -> None:
    house = House()
    give_nodes(house, None, {"id": "x"}, {"id": 7, "name": "Lamp", "values": {"a": 1, "b": {"commandClass": 49}}})
    house.receive("_CLIENTS/ZWAVE_GATEWAY-x/api/getNodes", b"nonsense")
    house.receive("7/38/0/currentValue", b"40")
    assert [(it.name, it.kind, it.state()) for it in house.devices()] == [("Lamp", "dimmer", 40)]


def test_measurements_get_label_unit_and_words_from_the_list_of_nodes() -> None:
    house = House()
    house.receive("Sensor/sensor_multilevel/endpoint_0/Air_temperature", b'{"value": 21.5, "time": 1000}')
    house.receive("Sensor/notification/endpoint_0/Home_Security/Motion_sensor_status", b'{"value": 8}')
    house.receive("Sensor/notification/endpoint_0/alarmType", b'{"value": 3}')
    house.receive("Sensor/meter/endpoint_0/value/66049", b'{"value": 12}')
    house.receive("Sensor/battery/endpoint_0/level", b'{"value": 87}')
    device = house.find("sensor")
    assert [(it.label, it.value, it.unit) for it in device.measurements()] == [
        ("66049", 12, None),
        ("Air temperature", 21.5, None),
        ("Battery level", 87, "%"),
        ("Motion sensor status", 8, None),
    ]
    motion = {"property": "Home Security", "propertyName": "Home Security", "propertyKey": "Motion sensor status"}
    give_nodes(
        house,
        {
            "id": 5,
            "name": "Sensor",
            "values": {
                "1": {"commandClass": 49, "property": "Air temperature", "label": "Air temperature", "unit": "°C"},
                "2": {"commandClass": 113, **motion, "label": "Motion", "states": [{"value": 8, "text": "moving"}]},
                "3": {"commandClass": 50, "property": "value", "propertyKey": 66049, "label": "Power", "unit": "W"},
            },
        },
    )
    assert [(it.label, it.value, it.unit) for it in device.measurements()] == [
        ("Air temperature", 21.5, "°C"),
        ("Battery level", 87, "%"),
        ("Motion", "moving", None),
        ("Power", 12, "W"),
    ]


def test_a_node_that_is_renamed_leaves_its_old_name() -> None:
    house = house_of("Old")
    house.receive("Old/37/0/currentValue", b"")
    house.receive("New/37/0/currentValue", b"true")
    assert [it.name for it in house.devices()] == ["New"]


def test_the_status_says_who_is_dead() -> None:
    house = house_of("A", "B", "C")
    house.receive("A/status", b'{"value": false, "status": "Dead", "nodeId": 2}')
    house.receive("B/status", b'{"value": true, "status": "Asleep", "nodeId": 3}')
    house.receive("C/status", b"false")
    assert [it.is_dead for it in house.devices()] == [True, False, True]


def test_a_device_with_several_switches_is_not_guessed_at() -> None:
    house = House()
    for endpoint in (1, 2):
        house.receive(f"Strip/37/{endpoint}/currentValue", b"false")
    with pytest.raises(HomeError, match=r"several switches \(endpoints 1, 2\)"):
        house.find("Strip").switch()
    house.receive("Strip/37/0/currentValue", b"false")
    assert house.find("Strip").switch().endpoint == 0


def test_commands_of_others_are_not_reports() -> None:
    house = house_of("Lamp")
    assert house.receive("Lamp/37/0/currentValue/set", b"true") is None
    assert house.find("Lamp").state() is False
