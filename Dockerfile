ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm

FROM ${PYTHON_IMAGE} AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1

WORKDIR /src
# Without pip: nothing is installed in the image later.
RUN python -m venv --without-pip /opt/palanca
COPY requirements.lock ./
RUN pip --python /opt/palanca/bin/python install --only-binary :all: --require-hashes -r requirements.lock
COPY . .
RUN pip wheel --no-deps --wheel-dir /dist . \
    && pip --python /opt/palanca/bin/python install --no-deps --no-index /dist/palanca-*.whl \
    && install -m 0644 deploy/container/healthcheck.py /opt/palanca/healthcheck.py \
    && find /opt/palanca/lib -type d -name tests -prune -exec rm -rf {} + \
    && /opt/palanca/bin/palanca --version \
    && /opt/palanca/bin/palanca rules check


FROM ${PYTHON_IMAGE}

ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="palanca" \
      org.opencontainers.image.description="Tells which vLLM flag to change, to what value, why, and whether the change worked" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

RUN groupadd --gid 10001 palanca \
    && useradd --uid 10001 --gid 10001 --no-log-init --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin palanca \
    && install -d -o 10001 -g 10001 -m 0750 /var/lib/palanca \
    && install -d -m 0755 /etc/palanca
COPY --from=build /opt/palanca /opt/palanca

# The only host that can be reached from outside a container. palanca refuses it until the settings file has tokens,
# or somebody says --no-auth.
ENV PATH=/opt/palanca/bin:$PATH \
    PALANCA_LISTEN__HOST=0.0.0.0 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    XDG_STATE_HOME=/var/lib

# The history. Nothing else is written, so that the root file system may be read-only.
VOLUME /var/lib/palanca
EXPOSE 9797
# By number, so that Kubernetes can check `runAsNonRoot`.
USER 10001:10001
WORKDIR /var/lib/palanca
HEALTHCHECK --interval=30s --timeout=6s --start-period=30s --retries=3 \
    CMD ["python", "-I", "/opt/palanca/healthcheck.py"]
ENTRYPOINT ["palanca"]
CMD ["serve", "--config", "/etc/palanca/palanca.yaml"]
