"""The HTTP routes: liveness, readiness and metrics.

`/healthz` says that this process lives; `/readyz` that the stack does its work, by the conditions of
`core/health/health_conditions.py`, from an observation that is made in the background.
"""

from __future__ import annotations

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from thermocline import __version__
from thermocline.api.catalog_metrics import catalog_registry
from thermocline.api.health_metrics import health_registry
from thermocline.api.health_watch import HealthWatch
from thermocline.runtime.settings import Settings


def make_app(settings: Settings, watch: HealthWatch | None = None) -> FastAPI:
    """The application for these settings."""
    watch = watch or HealthWatch(settings)
    watch.start()
    catalog, health = catalog_registry(settings), health_registry(watch)
    app = FastAPI(
        title="Thermocline", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json"
    )

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """200 while the process lives."""
        return {"status": "alive", "version": __version__}

    @app.get("/readyz")
    def readyz() -> JSONResponse:
        """200 while no condition of the stack's health is red; else 503 with the reasons."""
        state = watch.read()
        problems = [
            {"check": found.check, "verdict": found.verdict, "seen": found.seen, "fix": found.fix}
            for found in state.findings
            if found.verdict != "ok"
        ]
        if not state.reds:
            return JSONResponse({"status": "ready", "problems": problems})
        reason = " ".join(f"{found.sentence.rstrip('.')}." for found in state.reds)
        return JSONResponse({"status": "not ready", "reason": reason, "problems": problems}, status_code=503)

    @app.get("/metrics")
    def metrics() -> Response:
        """Metrics in the text format of Prometheus."""
        return Response(
            generate_latest() + generate_latest(health) + generate_latest(catalog), media_type=CONTENT_TYPE_LATEST
        )

    return app
