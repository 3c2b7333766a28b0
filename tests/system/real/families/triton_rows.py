"""Triton kernels that go through rows: pointwise, reductions, norms, gathers."""

import triton
import triton.language as tl


@triton.jit
def axpy(x, y, out, n, a, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = at < n
    tl.store(out + at, a * tl.load(x + at, mask=live) + tl.load(y + at, mask=live), mask=live)


@triton.jit
def gated_gelu(x, out, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        live = at < cols
        gate = tl.load(x + row * 2 * cols + at, mask=live, other=0.0).to(tl.float32)
        value = tl.load(x + row * 2 * cols + cols + at, mask=live, other=0.0).to(tl.float32)
        gelu = 0.5 * gate * (1 + tl.erf(gate * 0.70710678))
        tl.store(out + row * cols + at, (gelu * value).to(out.dtype.element_ty), mask=live)


@triton.jit
def row_softmax(x, out, stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < cols, other=float("-inf")).to(tl.float32)
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + at, values / tl.sum(values, axis=0), mask=at < cols)


@triton.jit
def online_softmax(x, out, stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = -float("inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * stride + at, mask=at < cols, other=float("-inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(values, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(values - new), axis=0)
        top = new
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * stride + at, mask=at < cols, other=0.0).to(tl.float32)
        tl.store(out + row * stride + at, tl.exp(values - top) / total, mask=at < cols)


@triton.jit
def layer_norm(x, out, weight, bias, mean, rstd, stride, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(x + row * stride + at, mask=at < cols, other=0.0).to(tl.float32)
    mu = tl.sum(acc, axis=0) / cols
    acc = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        delta = tl.load(x + row * stride + at, mask=at < cols, other=0.0).to(tl.float32) - mu
        acc += tl.where(at < cols, delta * delta, 0.0)
    scale = 1 / tl.sqrt(tl.sum(acc, axis=0) / cols + eps)
    tl.store(mean + row, mu)
    tl.store(rstd + row, scale)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        live = at < cols
        delta = tl.load(x + row * stride + at, mask=live, other=0.0).to(tl.float32) - mu
        value = delta * scale * tl.load(weight + at, mask=live) + tl.load(bias + at, mask=live)
        tl.store(out + row * stride + at, value, mask=live)


@triton.jit
def rms_norm_backward(
    dy, x, weight, rstd, dx, dw, locks, rows, cols, GROUP: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    live = at < cols
    grad = tl.load(dy + row * cols + at, mask=live, other=0.0).to(tl.float32)
    value = tl.load(x + row * cols + at, mask=live, other=0.0).to(tl.float32) * tl.load(rstd + row)
    scaled = grad * tl.load(weight + at, mask=live, other=0.0)
    inner = tl.sum(scaled * value, axis=0) / cols
    tl.store(dx + row * cols + at, (scaled - value * inner) * tl.load(rstd + row), mask=live)
    slot = row % GROUP
    while tl.atomic_cas(locks + slot, 0, 1) == 1:
        pass
    partial = grad * value + tl.load(dw + slot * cols + at, mask=live, other=0.0)
    tl.store(dw + slot * cols + at, partial, mask=live)
    tl.debug_barrier()
    tl.atomic_xchg(locks + slot, 0)


@triton.jit
def column_sums(x, out, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    at = tl.program_id(0) * BC + tl.arange(0, BC)
    acc = tl.zeros([BR, BC], tl.float32)
    for start in range(0, rows, BR):
        row = start + tl.arange(0, BR)
        acc += tl.load(
            x + row[:, None] * cols + at[None, :],
            mask=(row < rows)[:, None] & (at < cols)[None, :],
            other=0.0,
        )
    tl.store(out + at, tl.sum(acc, axis=0), mask=at < cols)


@triton.jit
def row_argmax(x, out, index, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * cols + at, mask=at < cols, other=float("-inf"))
    best, where = tl.max(values, axis=0, return_indices=True)
    tl.store(out + row, best)
    tl.store(index + row, where)


@triton.jit
def scan_rows(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
        tl.store(out + row * cols + at, tl.cumsum(values, axis=0) + carry, mask=at < cols)
        carry += tl.sum(values, axis=0)


@triton.jit
def sort_rows(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.sort(tl.load(x + at)))


@triton.jit
def histogram_of(x, out, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x + at, mask=at < n, other=0), BINS)
    tl.atomic_add(out + tl.arange(0, BINS), counts)


@triton.jit
def transpose(x, out, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    tile = tl.load(x + r[:, None] * cols + c[None, :], mask=(r < rows)[:, None] & (c < cols)[None, :])
    tl.store(
        out + c[:, None] * rows + r[None, :], tl.trans(tile), mask=(c < cols)[:, None] & (r < rows)[None, :]
    )


@triton.jit
def gather_rows(table, index, out, cols, BLOCK: tl.constexpr):
    row = tl.load(index + tl.program_id(0))
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(
        out + tl.program_id(0) * cols + at, tl.load(table + row * cols + at, mask=at < cols), mask=at < cols
    )


@triton.jit
def cross_entropy(logits, labels, loss, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(labels + row)
    top = -float("inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(logits + row * cols + at, mask=at < cols, other=-float("inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(values))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(values - new))
        top = new
    if label >= 0:
        tl.store(loss + row, tl.log(total) + top - tl.load(logits + row * cols + label).to(tl.float32))
    else:
        tl.store(loss + row, 0.0)
