# syncverify without a GPU: checks .syncir, PTX and, through NVRTC, CUDA sources.
#     docker build -t syncverify . && docker run --rm -v "$PWD:/kernels" syncverify check kernel.cu
FROM python:3.11-slim
WORKDIR /opt/syncverify
COPY pyproject.toml README.md LICENSE ./
COPY syncverify ./syncverify
RUN pip install --no-cache-dir '.[gpu]'
WORKDIR /kernels
ENTRYPOINT ["syncverify"]
CMD ["--help"]
