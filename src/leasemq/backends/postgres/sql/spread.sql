-- Answer an array as long as the batch: one with a single element stands for all, and null for nulls.
-- In: p_values, p_count
-- Out: array
CREATE FUNCTION {self}(p_values anyarray, p_count integer)
RETURNS anyarray LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_count > 1 AND cardinality(p_values) = 1
        THEN array_fill(p_values[1], ARRAY[p_count]) ELSE p_values END
$$;
