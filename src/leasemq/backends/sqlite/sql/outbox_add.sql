-- Record what must happen elsewhere.
-- In: :queue, :id, :kind, :child_queue, :child_id, :child_generation, :parent_queue, :parent_id,
--   :parent_generation, :on_failure, :outcome, :job
-- Out: nothing
INSERT INTO leasemq_outbox (
    queue, id, kind, child_queue, child_id, child_generation, parent_queue, parent_id, parent_generation,
    on_failure, outcome, job
) VALUES (
    :queue, :id, :kind, :child_queue, :child_id, :child_generation, :parent_queue, :parent_id,
    :parent_generation, :on_failure, :outcome, :job
)
