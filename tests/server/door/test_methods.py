"""Which paths there are, and what can be done with each."""

import pytest

from coilclaw.server.door.methods import Methods

METHODS = Methods(
    [
        ("/health", {"GET", "OPTIONS"}),
        ("/v1/jobs", {"GET"}),
        ("/v1/jobs", {"POST"}),
        ("/v1/jobs/{job_id:str}", {"GET"}),
        ("/v1/receipts/head", {"GET"}),
        ("/v1/receipts/{receipt_id:str}/again", {"POST"}),
    ]
)


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/health", {"GET", "OPTIONS"}),
        ("/v1/jobs", {"GET", "POST"}),
        ("/v1/jobs/job_1", {"GET"}),
        ("/v1/jobs/job_1/more", set()),
        ("/v1/receipts/head", {"GET"}),
        ("/v1/receipts/head/again", {"POST"}),
        ("/v1/receipts/other", set()),
        ("/", set()),
        ("/v1", set()),
    ],
)
def test_a_path_answers_to_its_own_methods(path, methods):
    assert METHODS.allowed(path) == methods
