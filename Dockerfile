FROM python:3.11-slim AS build

WORKDIR /src
RUN python -m venv /opt/palanca
COPY requirements.lock ./
RUN /opt/palanca/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /dist . \
    && /opt/palanca/bin/pip install --no-cache-dir --no-deps --no-index /dist/palanca-*.whl \
    && /opt/palanca/bin/palanca --version


FROM python:3.11-slim

RUN useradd --system --uid 10001 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin palanca
COPY --from=build /opt/palanca /opt/palanca

ENV PATH=/opt/palanca/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1

# By number, so that Kubernetes can check `runAsNonRoot`.
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["palanca"]
CMD ["--help"]
