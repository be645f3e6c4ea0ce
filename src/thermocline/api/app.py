"""The HTTP routes: liveness, readiness and metrics."""

from __future__ import annotations

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from thermocline import __version__
from thermocline.api.catalog_metrics import catalog_registry
from thermocline.api.readiness import why_not_ready
from thermocline.runtime.settings import Settings


def make_app(settings: Settings) -> FastAPI:
    """The application for these settings."""
    catalog = catalog_registry(settings)
    app = FastAPI(
        title="Thermocline", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json"
    )

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """200 while the process lives."""
        return {"status": "alive", "version": __version__}

    @app.get("/readyz")
    def readyz() -> JSONResponse:
        """200 when Postgres, catalog and gateway can be reached; else 503 with the reason."""
        reason = why_not_ready(settings)
        if reason is None:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "not ready", "reason": reason}, status_code=503)

    @app.get("/metrics")
    def metrics() -> Response:
        """Metrics in the text format of Prometheus."""
        return Response(generate_latest() + generate_latest(catalog), media_type=CONTENT_TYPE_LATEST)

    return app
