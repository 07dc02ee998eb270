"""The doctor's lines, as a program reads them."""

import pytest

from tests.acceptance.conftest import HomeAt


@pytest.mark.slow
def test_the_doctor_tells_of_the_broker_in_json_too(home: HomeAt) -> None:
    probes = home.run("doctor", "--json").json()
    (broker,) = [probe for probe in probes if probe["name"] == "broker"]
    assert broker["state"] == "ok"
    assert "reached only the broker" in broker["detail"]
    assert "remedy" in broker
